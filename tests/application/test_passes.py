import pytest

from collc.base.diagnostics import UsageError
from collc.passes.registry import Invert, PassContext, Synthesize, Verify, make_pass, parse_pipeline, pass_kinds
from collc.ten.module import Module
from tests.support import all_gather, all_reduce, grid, reduce_scatter


def test_a_pipeline_is_read_as_it_is_written() -> None:
    assert parse_pipeline("tacos{seed=7, trials=8},invert , verify") == (
        Synthesize("tacos", {"seed": 7, "trials": 8}),
        Invert(),
        Verify(),
    )
    assert parse_pipeline("tacos{seed=7 trials=8}") == (Synthesize("tacos", {"seed": 7, "trials": 8}),)
    assert parse_pipeline("tacos{}") == (Synthesize("tacos"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("takos", "did you mean 'tacos'"),
        ("tacos{sed=1}", "did you mean 'seed'"),
        ("tacos{seed=x}", "'seed' of 'tacos' must be int"),
        ("tacos{seed=1.5}", "'seed' of 'tacos' must be int"),
        ("tacos{seed=true}", "'seed' of 'tacos' must be int"),
        ("tacos{seed}", "read name=value"),
        ("tacos{seed=7", "the pipeline cannot be read from here"),
        ("", "the pipeline cannot be read"),
        ("tacos,,verify", "the pipeline cannot be read from here"),
        ("tacos,", "the pipeline cannot be read from here"),
        ("verify{x=1}", "no option of 'verify' named 'x'"),
    ],
)
def test_a_wrong_pipeline_is_explained(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pipeline(text)
    message = caught.value.diagnostics[0]
    assert words in f"{message.message} {message.hint}"


def test_every_pass_can_be_created_and_has_a_description() -> None:
    for name in pass_kinds():
        assert make_pass(name, {}).name == name
        assert make_pass(name, {}).__doc__


@pytest.mark.parametrize("demand", [all_gather, reduce_scatter, all_reduce])
def test_tacos_leaves_phases_and_invert_joins_them(demand) -> None:
    network = grid(3, 3)
    module = Module("m", network, demand(list(range(9))))
    solved = Synthesize("tacos", {"seed": 3}).run(module, PassContext())
    assert [phase.inverted for phase in solved.phases] == {
        all_gather: [False],
        reduce_scatter: [True],
        all_reduce: [True, False],
    }[demand]
    joined = Invert().run(solved, PassContext())
    assert joined.schedule is not None
    assert (joined.phases, joined.algorithm, joined.seed) == ((), "tacos", 3)
    Verify().run(joined, PassContext())
