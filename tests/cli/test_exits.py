from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Finished, Teia

RUN = "import sys\nfrom teia.cli.main import COMMANDS, run\n{setup}\nrun(sys.argv[1:])"


def with_command(body: str) -> tuple[str, str]:
    """A process whose `teia` has one more command, `try`, that does what `body` says."""
    lines = "\n    ".join(body.splitlines())
    setup = f"def attempt(json: bool = False) -> None:\n    {lines}\nCOMMANDS['try'] = ('__main__:attempt', 'Tests')"
    return "-c", RUN.format(setup=setup)


def without_module(name: str) -> tuple[str, str]:
    """A process in which a package is not installed."""
    blocker = (
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {name!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())"
    )
    return "-c", f"import sys\n{blocker}\nfrom teia.cli.main import run\nrun(sys.argv[1:])"


def only_line(done: Finished) -> str:
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("words", [("--nonsense",), ("frob",), ("config", "--nonsense"), ("lab", "reproduce")])
def test_wrong_usage_is_2(teia: Teia, words: tuple[str, ...]) -> None:
    done = teia(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: teia" in done.stderr


def test_wrong_usage_with_json_is_an_object_too(teia: Teia) -> None:
    done = teia("config", "--json", "--nonsense")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "UsageError"


def test_unknown_setting_is_one_line_with_the_nearest_key(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[courtesy]\ndelya_s = 2\n")
    done = teia("config", "--config", "wrong.toml")
    assert done.returncode == 1
    assert only_line(done) == "teia: unknown setting 'courtesy.delya_s'; did you mean 'courtesy.delay_s'?"


def test_missing_file_is_one_line_with_its_name(teia: Teia) -> None:
    done = teia("config", "--config", "nowhere.toml")
    assert done.returncode == 1
    assert only_line(done) == "teia: nowhere.toml: file not found"


def test_failure_with_json_ends_in_an_object(teia: Teia) -> None:
    done = teia("config", "--json", environ={"TEIA_COURTESY_DELAY_S": "soon"})
    assert done.returncode == 1
    failure = json.loads(done.stdout.splitlines()[-1])
    assert set(failure) == {"error", "message", "next"}
    assert failure["error"] == "ConfigError"
    assert "courtesy.delay_s" in failure["message"]


def test_fault_of_ours_is_one_line_that_asks_for_a_report(teia: Teia) -> None:
    done = teia("try", runner=with_command("raise ValueError('two\\nlines')"))
    assert done.returncode == 1
    assert "unexpected ValueError: two lines at" in only_line(done)
    assert "--debug" in only_line(done)


def test_debug_adds_the_traceback(teia: Teia) -> None:
    done = teia("--debug", "try", runner=with_command("raise ValueError('odd')"))
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("teia: unexpected ValueError: odd")


def test_what_the_machine_refuses_names_the_file(teia: Teia) -> None:
    done = teia("try", runner=with_command("open('no/such/folder')"))
    assert (done.returncode, only_line(done)) == (1, "teia: no/such/folder: No such file or directory")


def test_interrupt_is_130(teia: Teia) -> None:
    done = teia("try", "--json", runner=with_command("raise KeyboardInterrupt"))
    assert (done.returncode, only_line(done)) == (130, "teia: interrupted")
    assert json.loads(done.stdout)["error"] == "Interrupted"


def test_ctrl_c_ends_a_waiting_command_with_130() -> None:
    """Heard also where the tests run in the background, for which shells have it ignored."""
    heard = "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    command = with_command(f"{heard}\nprint('ready', flush=True)\ntime.sleep(110)")
    with subprocess.Popen(
        [sys.executable, *command, "try"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (130, "teia: interrupted\n")


@pytest.mark.parametrize("body", ["print('x' * 1_000_000)", "print('x')"])
def test_reader_that_leaves_is_not_an_error(body: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [sys.executable, *with_command(body), "try"], stdout=pipe, stderr=subprocess.PIPE, timeout=110
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_missing_package_says_which_extra_brings_it(teia: Teia) -> None:
    done = teia("lab", "reproduce", "P7", "--quick", runner=without_module("matplotlib"))
    assert done.returncode == 1
    assert only_line(done) == "teia: matplotlib is not installed; install it with pip install 'teia[lab]'"


def test_help_needs_no_extra(teia: Teia) -> None:
    assert teia("--help", runner=without_module("matplotlib")).returncode == 0
    assert teia("lab", "serve", "--help", runner=without_module("matplotlib")).returncode == 0


@pytest.mark.parametrize("module", ["numpy", "pyarrow", "duckdb", "pycurl"])
def test_light_command_imports_nothing_heavy(teia: Teia, module: str) -> None:
    assert teia("config", runner=without_module(module)).returncode == 0


def test_a_command_that_fails_at_once_leaves_no_new_folder(teia: Teia, tmp_path: Path) -> None:
    assert teia("crawl", "--data", "typo").returncode != 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = teia("serve", "--data", "typo", "--port", str(taken.getsockname()[1]))
    assert done.returncode != 0, done.stderr
    assert list(tmp_path.iterdir()) == []
