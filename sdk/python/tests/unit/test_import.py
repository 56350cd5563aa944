"""What an import costs: a program's first answer must not wait for libraries that it does not need."""

from helpers import finished, program


def test_pydantic_is_imported_only_for_tools() -> None:
    process = program("""
        import sys
        from thermae import Sandbox, tool
        @tool
        def t(x: int) -> int:
            return x
        with Sandbox() as box:
            box.run("print a")
            print("pydantic" in sys.modules)
            box.run("print a", tools=[t])
            print("pydantic" in sys.modules)
        """)
    assert finished(process) == (0, "False\nTrue\n", "")


def test_the_import_brings_nothing_large_along() -> None:
    process = program("""
        import sys
        import thermae
        large = ["pydantic", "urllib.request", "http.client", "ssl", "email", "shutil", "tempfile", "multiprocessing"]
        # What asyncio brings along anyway is not this package's.
        print([one for one in large if one in sys.modules and one != "ssl"])
        """)
    assert finished(process) == (0, "[]\n", "")
