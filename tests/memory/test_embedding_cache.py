from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from radt.memory.embedding_cache import OURS, WRITE_AFTER, EmbeddingCache, content_hash


class Asked:
    """Computes vectors from texts and writes down which it was asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def fetch(self, cache: EmbeddingCache, texts: Sequence[str]) -> Tensor:
        def compute(places: list[int]) -> Tensor:
            self.texts += [texts[place] for place in places]
            return torch.tensor([vector(texts[place]) for place in places])

        return cache.fetch([content_hash(text.encode()) for text in texts], compute)


def vector(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)))]


def expected(texts: Sequence[str]) -> Tensor:
    return torch.tensor([vector(text) for text in texts])


def test_equal_contents_are_computed_once_and_counted(tmp_path: Path) -> None:
    cache, asked = EmbeddingCache(tmp_path, 2, most=100), Asked()
    for texts in (["a", "bb", "a"], ["bb", "ccc"]):
        assert torch.equal(asked.fetch(cache, texts), expected(texts))
    assert asked.texts == ["a", "bb", "ccc"]
    counts = cache.counts
    assert (counts.hits, counts.misses, counts.computed) == (1, 4, 3)
    assert counts.seconds > 0


def test_another_process_finds_what_was_written(tmp_path: Path) -> None:
    texts = ["a", "bb", "ccc"]
    cache = EmbeddingCache(tmp_path, 2, most=100)
    Asked().fetch(cache, texts)
    cache.flush()
    cache.flush()  # nothing new: no second file
    assert len(list(tmp_path.iterdir())) == 1
    again, asked = EmbeddingCache(tmp_path, 2, most=100), Asked()
    assert torch.equal(asked.fetch(again, texts), expected(texts))
    assert not asked.texts
    again.flush()
    assert len(list(tmp_path.iterdir())) == 1


def test_only_an_earlier_process_saves_time_and_each_vector_once(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, 2, most=100)
    Asked().fetch(cache, ["a", "bb", "ccc", "a"])
    cache.flush()
    price = cache.counts.seconds / 3
    ours = EmbeddingCache(tmp_path, 2, most=100)
    Asked().fetch(ours, ["a", "bb"])
    assert (ours.counts.hits, ours.counts.from_disk, ours.counts.seconds_saved) == (2, 0, 0.0)
    OURS.clear()  # as if another process had written it
    theirs = EmbeddingCache(tmp_path, 2, most=100)
    for _ in range(2):
        Asked().fetch(theirs, ["a", "bb", "a", "dddd"])
    assert (theirs.counts.hits, theirs.counts.from_disk, theirs.counts.computed) == (7, 2, 1)
    assert theirs.counts.seconds_saved == pytest.approx(2 * price)


def test_two_writers_do_not_harm_each_other(tmp_path: Path) -> None:
    one, two = (EmbeddingCache(tmp_path, 2, most=100) for _ in range(2))
    Asked().fetch(one, ["a", "bb"])
    Asked().fetch(two, ["bb", "ccc"])
    one.flush()
    two.flush()
    assert len(EmbeddingCache(tmp_path, 2, most=100)) == 3


def test_many_new_vectors_are_written_without_being_asked_to(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path, 2, most=10_000)
    Asked().fetch(cache, [str(n) for n in range(WRITE_AFTER - 1)])
    assert not list(tmp_path.iterdir())
    Asked().fetch(cache, ["one more"])
    assert len(EmbeddingCache(tmp_path, 2, most=10_000)) == WRITE_AFTER


def test_no_more_is_kept_than_asked_for(tmp_path: Path) -> None:
    cache, asked = EmbeddingCache(tmp_path, 2, most=2), Asked()
    texts = ["a", "bb", "ccc"]
    for _ in range(2):
        assert torch.equal(asked.fetch(cache, texts), expected(texts))
    assert len(cache) == 2
    assert asked.texts == ["a", "bb", "ccc", "ccc"]


def test_a_cache_of_nothing_touches_no_disk(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    cache = EmbeddingCache(folder, 2, most=0)
    assert torch.equal(Asked().fetch(cache, ["a", "a"]), expected(["a", "a"]))
    cache.flush()
    assert not folder.exists()


@pytest.mark.parametrize("harm", ["cut", "flip", "empty"])
def test_a_damaged_file_is_computed_again_with_a_warning(tmp_path: Path, harm: str) -> None:
    cache = EmbeddingCache(tmp_path, 2, most=100)
    Asked().fetch(cache, ["a", "bb"])
    cache.flush()
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes({"cut": content[:-3], "flip": content, "empty": b""}[harm])
    with pytest.warns(UserWarning, match="is damaged; its embeddings are computed again"):
        again = EmbeddingCache(tmp_path, 2, most=100)
    asked = Asked()
    assert torch.equal(asked.fetch(again, ["a", "bb"]), expected(["a", "bb"]))
    assert asked.texts == ["a", "bb"]
    again.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(EmbeddingCache(tmp_path, 2, most=100)) == 2


def test_what_a_killed_writer_left_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".abc.safetensors.1234.tmp").write_bytes(b"half")
    assert len(EmbeddingCache(tmp_path, 2, most=100)) == 0
