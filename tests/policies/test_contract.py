"""One contract over every policy of the package, found by walking it."""

import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import privbandit.policies
from privbandit.ledger import Ledger
from privbandit.links import Logistic
from privbandit.policies.base import Policy, choose

from .examples import ANY_LENGTH, ARMED, DELTA, EVERY_ROUND, EXAMPLES, PRIVATE, RANDOM, STATELESS

SIZES = [(3, 2, 6), (1, 1, 1), (4, 1, 5), (1, 3, 4), (2, 2, 1)]  # K, d, T
EPSILON = 1.5


def classes() -> dict[str, type[Policy]]:
    """All concrete policies defined under privbandit.policies."""
    found = {}
    for info in pkgutil.walk_packages(privbandit.policies.__path__, "privbandit.policies."):
        for name, cls in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            if issubclass(cls, Policy) and not inspect.isabstract(cls) and cls.__module__ == info.name:
                found[name] = cls
    return found


CLASSES = {name: cls for name, cls in classes().items() if name in EXAMPLES}
every = pytest.mark.parametrize("name", CLASSES)
private = pytest.mark.parametrize("name", sorted(PRIVATE & set(CLASSES)))


def build(name, size=SIZES[0], epsilon=EPSILON):
    K, d, T = size
    return EXAMPLES[name](CLASSES[name], K, K if name in ARMED else d, T, epsilon)


def inputs(name, size, R, seed=0):
    """Contexts (T, R, K, d) in the unit ball (one-hot where the policy wants arms) and rewards (T, R) in {0, 1}."""
    K, d, T = size
    rng = np.random.default_rng(seed)
    if name in ARMED:
        contexts = np.broadcast_to(np.eye(K), (T, R, K, K))
    else:
        contexts = rng.normal(size=(T, R, K, d))
        contexts = contexts / np.maximum(1.0, np.linalg.norm(contexts, axis=-1, keepdims=True))
    return contexts, rng.integers(0, 2, size=(T, R)).astype(float)


def play(policy, contexts, rewards, seed=0):
    """Actions (T, R)."""
    noise, rng = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    state, actions = policy.init(contexts.shape[1], noise), []
    for shown, reward in zip(contexts, rewards, strict=True):
        state, action = policy.act(state, shown, rng)
        state = policy.update(state, choose(shown, action), reward, noise)
        actions.append(action)
    return np.array(actions)


def test_every_policy_has_an_example():
    missing = set(classes()) - set(EXAMPLES)
    assert not missing, f"add one line each to tests/policies/examples.py: {sorted(missing)}"
    assert ARMED | PRIVATE | RANDOM | EVERY_ROUND <= set(EXAMPLES)


@every
def test_frozen_parameters_and_a_name(name):
    cls, policy = CLASSES[name], build(name)
    assert type(policy) is cls and dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen
    assert isinstance(policy.name, str) and policy.name
    assert inspect.getdoc(cls) and not inspect.getdoc(cls).startswith(f"{name}(")  # written, not generated


@every
@pytest.mark.parametrize("size", SIZES, ids=lambda s: "K{}-d{}-T{}".format(*s))
@pytest.mark.parametrize("R", [1, 3])
def test_actions_are_arms_replications_first(name, size, R):
    actions = play(build(name, size), *inputs(name, size, R))
    assert actions.shape == (size[2], R) and np.issubdtype(actions.dtype, np.integer)
    assert actions.min() >= 0 and actions.max() < size[0]


@pytest.mark.parametrize("name", [n for n in CLASSES if "link" in {f.name for f in dataclasses.fields(CLASSES[n])}])
@pytest.mark.parametrize("link", [Logistic, "logistic", None])
def test_a_link_is_an_object_with_the_methods_of_one(name, link):
    with pytest.raises(TypeError, match="^link must be an instance of Link, got "):
        dataclasses.replace(build(name), link=link)


@every
def test_the_seeds_fix_the_actions(name):
    data = inputs(name, SIZES[0], 4)
    assert np.array_equal(play(build(name), *data), play(build(name), *data))


@every
def test_states_are_values(name):
    """Acting and learning twice from one state gives the same twice: nothing is changed in place."""
    policy, (contexts, rewards) = build(name), inputs(name, SIZES[0], 3)

    def one_round(state, shown, reward):
        acted, action = policy.act(state, shown, np.random.default_rng(6))
        return action, policy.update(acted, choose(shown, action), reward, np.random.default_rng(5))

    state = policy.init(3, np.random.default_rng(0))
    for shown, following, reward in zip(contexts, contexts[1:], rewards, strict=False):
        (action, first), (again, second) = (one_round(state, shown, reward) for _ in range(2))
        assert np.array_equal(action, again)
        assert np.array_equal(*(policy.act(after, following, np.random.default_rng(7))[1] for after in (first, second)))
        state = first


@pytest.mark.parametrize("name", sorted(set(CLASSES) - RANDOM))
def test_replications_do_not_meet(name):
    """Without noise, playing three replications together or one at a time is the same."""
    policy, (contexts, rewards) = build(name, (3, 2, 12), np.inf), inputs(name, (3, 2, 12), 3)
    together = play(policy, contexts, rewards)
    apart = [play(policy, contexts[:, [r]], rewards[:, [r]])[:, 0] for r in range(3)]
    assert np.array_equal(together, np.array(apart).T)


@every
def test_an_unobserved_round_is_accepted_or_refused_by_name(name):
    policy, (contexts, _) = build(name), inputs(name, SIZES[0], 2)
    noise = np.random.default_rng(0)
    state, action = policy.act(policy.init(2, noise), contexts[0], np.random.default_rng(1))
    nothing = np.zeros_like(choose(contexts[0], action))
    if name in EVERY_ROUND:
        with pytest.raises(ValueError, match="^x must be one-hot"):
            policy.update(state, nothing, np.zeros(2), noise)
    else:
        state = policy.update(state, nothing, np.zeros(2), noise)
        assert np.isin(policy.act(state, contexts[1], np.random.default_rng(1))[1], range(3)).all()


def spoiled(array, value):
    bad = array.copy()
    bad[(-1,) * array.ndim] = value
    return bad


def odd_records(name, x, reward):
    """(argument, x, reward): one of the two is not what a round may bring."""
    yield from (("x", spoiled(x, value), reward) for value in (np.nan, np.inf, -np.inf))
    yield from (("reward", x, spoiled(reward, value)) for value in (np.nan, np.inf, -np.inf))
    yield from (("x", x[0], reward), ("x", x[:0], reward), ("x", x[..., None], reward), ("x", None, reward))
    yield from (("reward", x, reward[:, None]), ("reward", x, reward[:1]), ("reward", x, 0.0), ("reward", x, [None] * len(x)))
    if name not in ANY_LENGTH:
        yield "x", np.concatenate([x, x], axis=1), reward
    if name not in STATELESS:
        yield "x", x[:1], reward[:1]  # numpy would hand the one record to every replication


def odd_contexts(name, contexts):
    yield from (spoiled(contexts, value) for value in (np.nan, np.inf))
    yield from (contexts[0], contexts[:, :0], contexts[:0], None)  # no replication axis, no arms, nobody
    if name not in ANY_LENGTH:
        yield np.concatenate([contexts, contexts], axis=2)
    if name not in STATELESS:
        yield contexts[:1]


def refused(argument, call, *args):
    """Whether the call raises an error that names the argument, and draws nothing first."""
    generator = args[-1]
    before = generator.bit_generator.state
    try:
        call(*args)
    except (TypeError, ValueError) as error:
        return str(error).startswith(f"{argument} must ") and generator.bit_generator.state == before
    except Exception:  # noqa: BLE001  an error from somewhere inside names nothing
        return False
    return False


def second_round(name):
    """The policy after one round, the state after its second choice, and that choice's record."""
    policy, (contexts, rewards), noise = build(name), inputs(name, SIZES[0], 3), np.random.default_rng(0)
    state, action = policy.act(policy.init(3, noise), contexts[0], np.random.default_rng(1))
    state = policy.update(state, choose(contexts[0], action), rewards[0], noise)
    acted, action = policy.act(state, contexts[1], np.random.default_rng(2))
    return policy, state, contexts[1], acted, choose(contexts[1], action), rewards[1]


@every
def test_an_odd_record_is_refused_by_name_before_anything_happens(name):
    """A user who reports NaN must not get it past the noise: np.clip lets NaN through."""
    policy, _, _, state, x, reward = second_round(name)
    for argument, odd_x, odd_reward in odd_records(name, x, reward):
        assert refused(argument, policy.update, state, odd_x, odd_reward, np.random.default_rng(0)), (argument, odd_x, odd_reward)
    policy.update(state, x, reward, np.random.default_rng(0))


@every
def test_odd_contexts_are_refused_by_name(name):
    policy, state, contexts, *_ = second_round(name)
    for odd in odd_contexts(name, contexts):
        assert refused("contexts", policy.act, state, odd, np.random.default_rng(0)), odd


@every
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_without_the_check_of_the_base_class_odd_input_is_let_in(name, monkeypatch):
    """So the two tests above can fail, for every policy: they fail once its methods are unwrapped."""
    policy, chosen, contexts, state, x, reward = second_round(name)
    for cls in {cls for one in CLASSES.values() for cls in one.__mro__}:
        for method in {"act", "update"} & set(vars(cls)):
            if hasattr(vars(cls)[method], "__wrapped__"):
                monkeypatch.setattr(cls, method, vars(cls)[method].__wrapped__)
    rng = np.random.default_rng(0)
    let_in = [odd for odd in odd_records(name, x, reward) if not refused(odd[0], policy.update, state, *odd[1:], rng)]
    assert let_in
    assert not all(refused("contexts", policy.act, chosen, odd, rng) for odd in odd_contexts(name, contexts))


@every
def test_the_ledger_promises_what_it_should(name):
    ledger = build(name).ledger
    assert isinstance(ledger, Ledger) and ledger.unit
    if name in PRIVATE:
        assert 0 < ledger.epsilon(DELTA) <= EPSILON * (1 + 1e-9)
        assert ledger.trust in ("central", "joint", "shuffle", "local")
        assert ledger.trust in CLASSES[name].trust.split(" or ") or name == "Doubling"  # what `privbandit list policies` says
        assert build(name, epsilon=np.inf).ledger.epsilon(DELTA) == np.inf
    elif name not in RANDOM:  # playing at random tells nothing
        assert ledger.epsilon(DELTA) == np.inf


@pytest.mark.parametrize("name", sorted(PRIVATE & set(CLASSES) - EVERY_ROUND))
def test_noise_reaches_the_actions(name):
    """At epsilon = 0.01 the actions are not those without noise (12 rounds, 20 replications, 3 arms: chance cannot make them agree).

    Elimination is left out: it plays in turn whatever the noise, until an epoch ends.
    """
    size = (3, 2, 12)
    data = inputs(name, size, 20)
    assert not np.array_equal(play(build(name, size, 0.01), *data), play(build(name, size, np.inf), *data))


@private
@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_a_bad_budget_is_named(name, epsilon):
    with pytest.raises((ValueError, TypeError), match="^epsilon must be"):
        build(name, epsilon=epsilon).ledger


@private
def test_the_guarantee_is_documented(name):
    assert "uarantee" in inspect.getdoc(CLASSES[name])
