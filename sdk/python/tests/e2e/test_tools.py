"""Tools of a real fleet, called by the code of its runs."""

from fleets import any_fleet

from thermae import Sandbox, tool


@tool
def transfer(source: str, dest: str, amount: int = 1) -> str:
    """Moves money."""
    return f"{amount} from {source} to {dest}"


def test_positional_arguments_have_the_order_of_the_function() -> None:
    code = """
import inspect
print(await transfer("alice", "bob"))
print(await transfer("alice", dest="bob", amount=2))
print(inspect.signature(transfer))
help(transfer)
"""
    with Sandbox(tools=[transfer], **any_fleet(1)) as box:
        lines = box.run(code).stdout.splitlines()
    assert lines[:3] == ["1 from alice to bob", "2 from alice to bob", "(source: str, dest: str, amount: int = 1)"]
    assert lines[3] == "await transfer(source: str, dest: str, amount: int = 1) -> str"


def test_integers_of_any_size_arrive_with_all_their_digits() -> None:
    seen: list[object] = []

    @tool
    def keep(n: int) -> int:
        seen.append(n)
        return n

    numbers = [0, -(2**63) - 1, 2**64 - 1, 2**64, 10**20 + 1, 10**77 + 1]
    with Sandbox(tools=[keep], **any_fleet(1)) as box:
        result = box.run("print([await keep(n) for n in numbers] == numbers)", inputs={"numbers": numbers})
    assert (seen, result.stdout) == (numbers, "True\n")


def test_a_lone_dict_is_the_argument_of_a_parameter_that_takes_one() -> None:
    @tool
    def count(order: dict[str, int], note: str = "") -> str:
        return f"{order} {note}"

    code = "print(await count({'n': 1}))\nprint(await count({'n': 1}, note='x'))\nawait count({'order': {}})"
    with Sandbox(tools=[count], **any_fleet(1)) as box:
        result = box.run(code)
    assert result.stdout == "{'n': 1} \n{'n': 1} x\n"
    assert result.error is not None
    assert result.error.exception == "TypeError"
    assert "the dict can be the argument 'order' or hold all arguments" in result.error.message
