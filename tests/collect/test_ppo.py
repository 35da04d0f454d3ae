"""The handwritten PPO equals the textbook one: autograd, torch.optim.Adam, plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from radt.collect.networks import (
    HIDDEN,
    POLICY,
    VALUE,
    ActorCritics,
    Adam,
    Experience,
    minibatches,
    of_samples,
    orthogonal,
    output_gradients,
)
from radt.collect.ppo import CollectConfig, GroupLearner, network_inputs
from radt.collect.rollout import Rollout, Runner, StateIndex, advantages
from radt.envs import SUITES
from radt.runs.presets import usual_options
from radt.spaces import StateSpace

TASKS, STATES, ACTIONS, STEPS, BATCH = 3, 12, 4, 64, 16
CONFIG = CollectConfig(n_steps=STEPS, batch_size=BATCH, ent_coef=0.03)


def make_networks(seed: int = 0, max_states: int = BATCH) -> ActorCritics:
    generators = [np.random.default_rng((seed, task)) for task in range(TASKS)]
    networks = ActorCritics(generators, 2, ACTIONS, max_states, dtype=torch.float64)
    for weights in networks.weights:  # biases, too, and a policy that is not uniform
        weights += 0.3 * torch.from_numpy(np.random.default_rng(seed).normal(size=weights.shape))
    networks.weights[2].view(TASKS, 2, ACTIONS, -1)[:, VALUE, 1:] = 0
    return networks


def make_experience(seed: int = 0) -> tuple[Experience, torch.Tensor]:
    rng = np.random.default_rng(seed)
    states = rng.integers(STATES, size=(TASKS, STEPS))
    actions = rng.integers(ACTIONS, size=(TASKS, STEPS))
    policies = rng.dirichlet(np.ones(ACTIONS), size=(TASKS, STATES))
    experience = Experience(
        states,
        actions,
        policies[np.arange(TASKS)[:, None], states, actions],
        rng.normal(size=(TASKS, STEPS)),
        rng.normal(size=(TASKS, STEPS)),
    )
    inputs = np.concatenate([rng.normal(size=(STATES, 2)), np.ones((STATES, 1))], axis=1)
    return experience, torch.from_numpy(inputs)


def textbook_loss(weights: list[torch.Tensor], task: int, batch: Experience, inputs: torch.Tensor):
    """PPO's loss of one task over all samples, as stable-baselines3 writes it."""

    def network(which: int) -> torch.Tensor:
        first, second, head = (block[2 * task + which] for block in weights)
        hidden = inputs[torch.from_numpy(batch.states)]
        for layer in (first, second):
            hidden = torch.tanh(hidden @ layer)
            hidden = torch.cat([hidden, torch.ones(len(hidden), 1, dtype=hidden.dtype)], dim=1)
        return hidden @ head.T

    actions = torch.from_numpy(batch.actions)
    policy = torch.distributions.Categorical(logits=network(POLICY))
    ratio = (policy.log_prob(actions) - torch.from_numpy(batch.probabilities).log()).exp()
    gain = torch.from_numpy(batch.advantages)
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    clipped = ratio.clamp(1 - CONFIG.clip_range, 1 + CONFIG.clip_range)
    policy_loss = -torch.min(gain * ratio, gain * clipped).mean()
    value_loss = (network(VALUE)[:, 0] - torch.from_numpy(batch.returns)).square().mean()
    entropy_loss = -policy.entropy().mean()
    return policy_loss + CONFIG.ent_coef * entropy_loss + CONFIG.vf_coef * value_loss


def rows(experience: Experience, task: int, chosen: np.ndarray) -> Experience:
    names = ("states", "actions", "probabilities", "advantages", "returns")
    return Experience(*(getattr(experience, name)[task, chosen] for name in names))


def test_gradients_over_distinct_states_equal_autograd_over_all_samples() -> None:
    networks = make_networks()
    experience, inputs = make_experience()
    order = np.stack([np.random.default_rng(task).permutation(STEPS) for task in range(TASKS)])
    batches = minibatches(experience, order, BATCH, ACTIONS, STATES, torch.float64)
    count = 0
    for number, batch in enumerate(batches):
        networks.backward(output_gradients(networks.forward(inputs[batch.states]), batch, CONFIG))
        weights = [block.clone().requires_grad_() for block in networks.weights]
        chosen = order[:, number * BATCH : (number + 1) * BATCH]
        loss = sum(
            textbook_loss(weights, task, rows(experience, task, chosen[task]), inputs)
            for task in range(TASKS)
        )
        loss.backward()
        for mine, block in zip(networks.weight_gradients, weights, strict=True):
            torch.testing.assert_close(mine, block.grad, rtol=1e-9, atol=1e-9)
        assert batch.states.shape[1] < BATCH
        count += 1
    assert count == STEPS // BATCH


def test_samples_one_by_one_have_the_same_gradient() -> None:
    networks = make_networks()
    experience, inputs = make_experience()
    order = np.tile(np.arange(STEPS), (TASKS, 1))
    rows = np.arange(BATCH)
    batch = next(minibatches(experience, order, BATCH, ACTIONS, STATES, torch.float64))
    networks.backward(output_gradients(networks.forward(inputs[batch.states]), batch, CONFIG))
    expected = networks.parameters.gradients.clone()
    samples = of_samples(rows, experience, ACTIONS, torch.float64)
    seen = inputs[torch.from_numpy(experience.states[:, rows])]
    networks.backward(output_gradients(networks.forward(seen), samples, CONFIG))
    torch.testing.assert_close(networks.parameters.gradients, expected, rtol=1e-9, atol=1e-9)


def test_clipping_and_adam_equal_torch_for_each_task() -> None:
    networks = make_networks()
    optimiser = Adam(networks.parameters, learning_rate=3e-3, epsilon=1e-5)
    twins = [
        [torch.nn.Parameter(block.view(TASKS, -1)[task].clone()) for block in networks.weights]
        for task in range(TASKS)
    ]
    others = [torch.optim.Adam(twin, lr=3e-3, eps=1e-5) for twin in twins]
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e-2, 10.0):  # clipped and not
        gradients = networks.parameters.gradients
        gradients.copy_(torch.from_numpy(rng.normal(size=len(gradients)) * scale))
        for task, (twin, other) in enumerate(zip(twins, others, strict=True)):
            for parameter, block in zip(twin, networks.weight_gradients, strict=True):
                parameter.grad = block.view(TASKS, -1)[task].clone()
            torch.nn.utils.clip_grad_norm_(twin, 0.5)
            other.step()
        networks.parameters.clip_gradients(0.5)
        optimiser.step()
    for task, twin in enumerate(twins):
        for parameter, block in zip(twin, networks.weights, strict=True):
            mine = block.view(TASKS, -1)[task]
            torch.testing.assert_close(mine, parameter.detach(), rtol=1e-9, atol=1e-9)


def test_buffers_of_another_size_leave_no_trace() -> None:
    networks = make_networks()
    small, large = torch.randn(2, TASKS, BATCH, 3, dtype=torch.float64).unbind()
    expected = networks.forward(small[:, :5]).clone()
    networks.forward(large)
    assert torch.equal(networks.forward(small[:, :5]), expected)


@pytest.mark.parametrize(("inputs", "outputs"), [(2, 64), (64, 64), (64, 5), (64, 1)])
def test_initial_weights_are_orthogonal(inputs: int, outputs: int) -> None:
    weights = orthogonal(np.random.default_rng(0), inputs, outputs, gain=2.0)
    product = weights @ weights.mT if inputs <= outputs else weights.mT @ weights
    torch.testing.assert_close(product, 4 * torch.eye(len(product), dtype=torch.float64))


def test_networks_start_as_those_of_stable_baselines3() -> None:
    networks = ActorCritics([np.random.default_rng(0)], 2, 5, max_states=4)
    policy_head, value_head = networks.weights[2]
    assert all(bool((block[:, -1] == 0).all()) for block in networks.weights[:2])
    assert policy_head[:, :HIDDEN].norm(dim=1).tolist() == pytest.approx([0.01] * 5)
    assert value_head[0, :HIDDEN].norm() == pytest.approx(1.0)
    assert not value_head[1:].any()


def test_advantages_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    shape = (40, TASKS)
    terminated = rng.random(shape) < 0.1
    truncated = (rng.random(shape) < 0.1) & ~terminated
    states, after = rng.integers(STATES, size=(2, *shape))
    rollout = Rollout(states, states, rng.random(shape, np.float32), terminated, truncated, after)
    values = rng.normal(size=(TASKS, STATES))
    now, then = values[np.arange(TASKS), states], values[np.arange(TASKS), after]
    estimates, targets = advantages(rollout, now, then, 0.9, 0.8)
    for task in range(TASKS):
        expected = 0.0
        for step in reversed(range(len(states))):
            last = terminated[step, task] or truncated[step, task]
            future = 0.0 if terminated[step, task] else values[task, after[step, task]]
            error = rollout.rewards[step, task] + 0.9 * future - values[task, states[step, task]]
            expected = error + (0.0 if last else 0.9 * 0.8 * expected)
            assert estimates[step, task] == pytest.approx(expected)
    np.testing.assert_allclose(targets, estimates + now)


def test_state_numbers_and_inputs() -> None:
    index = StateIndex(StateSpace("discrete", (2,), bins=(3, 5)))
    assert index.count == 15
    assert index.of(index.coordinates).tolist() == list(range(15))
    raw, unit = network_inputs(index, "raw"), network_inputs(index, "unit")
    assert raw[-1].tolist() == [2, 4, 1]
    assert unit[0].tolist() == [-1, -1, 1]
    assert unit[-1].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="needs discrete ones, not 'vector'"):
        StateIndex(StateSpace("vector", (2,)))


def test_a_rollout_follows_its_tables_and_the_environment() -> None:
    suite = SUITES["dark-room-10x10"]
    runner = Runner(suite.make_vec((0, 1)), [0, 1], StateIndex(suite.spaces.state).of)
    tables = np.zeros((2, 100, 5))
    tables[0, :, 1] = 1.0  # right
    tables[1, :, 2] = 1.0  # down
    rollout = runner.rollout(tables, np.random.default_rng(0).random((205, 2)))
    assert (rollout.actions == [1, 2]).all()
    assert rollout.states[:12, 0].tolist() == [*range(10), 9, 9]
    assert rollout.states[:12, 1].tolist() == [*range(0, 100, 10), 90, 90]
    assert np.flatnonzero(rollout.terminated[:, 0]).tolist() == [99, 199]
    assert rollout.states[100].tolist() == [0, 0]
    assert rollout.next_states[99].tolist() == [9, 90]
    assert runner.states.tolist() == [5, 50]


def test_same_seed_same_arrays_and_other_tasks_do_not_matter() -> None:
    suite = SUITES["dark-room-10x10"]
    config = CollectConfig(n_steps=256, n_epochs=2, transitions=1024)

    def play(tasks: tuple[int, ...], seed: int) -> np.ndarray:
        learner = GroupLearner(suite, tasks, replace(config, seed=seed))
        return np.concatenate([learner.advance().states for _ in range(3)])

    first = play((3, 5), seed=0)
    assert np.array_equal(first, play((3, 5), seed=0))
    assert not np.array_equal(first, play((3, 5), seed=1))
    assert np.array_equal(first[:256, 1], play((5, 7), seed=0)[:256, 0])


def test_it_learns_goals_nearby() -> None:
    suite = SUITES["dark-room-10x10"]
    near = [task for task in suite.train_tasks if suite.optimal_return(task) >= 98][:3]
    config = CollectConfig(n_steps=1024, transitions=14 * 1024, observation_scale="raw")
    learner = GroupLearner(suite, near, config)
    rewards = [learner.advance().rewards.mean(axis=0) for _ in range(config.rollouts)]
    assert (rewards[0] < 0.3).all()
    assert (np.mean(rewards[-3:], axis=0) > 0.45).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_steps": 100}, "multiple of batch_size"),
        ({"transitions": 0}, "transitions must be at least 1"),
    ],
)
def test_impossible_configurations_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CollectConfig(**change)


def test_the_papers_exceptions() -> None:
    assert usual_options("dark-room-10x10", "ppo", "paper") == CollectConfig()
    assert usual_options("dark-room-20x20", "ppo", "paper").n_epochs == 30
    large = usual_options("dark-room-40x20", "ppo", "paper")
    assert (large.n_epochs, large.ent_coef, large.transitions) == (30, 0.1, 200_000)
