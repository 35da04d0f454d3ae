"""What the batteries count is kept as that of memories is."""

from tests.memory.conftest import tally as tally
