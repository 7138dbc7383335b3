"""The set-up script installs when something has changed, and only then."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
CREATE = ["create", ".venv"]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load `tools/environments.py`, at work on a project in *tmp_path* that has one peer."""
    spec = importlib.util.spec_from_file_location("environments", ROOT / "tools" / "environments.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text("one")
    (tmp_path / "integrations").mkdir()
    (tmp_path / "integrations" / "environments.toml").write_text(
        '[peer]\nrequires = ["peer==1"]\nvariables = { ANSWER = "42" }\n'
        'check = ["ask.py", "--check"]\nbench = ["ask.py"]\n'
    )
    return module


@pytest.fixture
def installed(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been installed: environments are this interpreter, and pip is not called."""
    calls: list[list[str]] = []
    run = subprocess.run

    def create(folder: Path) -> None:
        calls.append(["create", folder.name])
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        python = folder / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)

    def run_without_pip(command, **options):
        if "pip" in command:
            calls.append(
                [
                    word
                    for word in command[4:]
                    if word not in ("-qq", "--no-input", "--disable-pip-version-check")
                ]
            )
            return subprocess.CompletedProcess(command, 0)
        return run(command, **options)

    monkeypatch.setattr(script, "create", create)
    monkeypatch.setattr(subprocess, "run", run_without_pip)
    return calls


def test_an_unchanged_project_is_installed_once(script, installed):
    assert [0, 0] == [script.main(["main"]), script.main(["main"])]
    assert [CREATE, ["-e", "."]] == installed


def test_the_full_environment_serves_the_plain_one_but_not_the_reverse(script, installed):
    for which in ("main", "dev", "main", "dev"):
        script.main([which])

    assert [CREATE, ["-e", "."], ["-e", ".[dev]"]] == installed


def test_a_changed_pyproject_is_installed_again(script, installed):
    script.main(["dev"])
    (script.ROOT / "pyproject.toml").write_text("two")
    script.main(["main"])
    script.main(["dev"])

    assert [CREATE, ["-e", ".[dev]"], ["-e", "."], ["-e", ".[dev]"]] == installed


def test_an_environment_of_another_interpreter_is_made_anew(script, installed, monkeypatch):
    script.main(["main"])
    monkeypatch.setattr(sys, "version", "another")
    script.main(["main"])

    assert [CREATE, ["-e", "."]] * 2 == installed


def test_an_environment_that_was_moved_is_made_anew(script, installed, monkeypatch, tmp_path):
    """The programs in it name the place where they were installed."""
    script.main(["main"])
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    monkeypatch.setattr(script, "ROOT", moved)
    script.main(["main"])

    assert [CREATE, ["-e", "."]] * 2 == installed


def test_a_failed_installation_is_begun_anew(script, installed, monkeypatch):
    with monkeypatch.context() as patch:

        def fail(command, **options):
            raise subprocess.CalledProcessError(1, command)

        patch.setattr(subprocess, "run", fail)
        message = script.main(["main"])

    assert "ended with status 1" in message
    assert 0 == script.main(["main"])
    assert [CREATE, CREATE, ["-e", "."]] == installed


def test_a_peer_runs_in_its_own_environment_with_its_variables(script, installed, capfd):
    (script.ROOT / "ask.py").write_text("import os, sys; print(os.environ['ANSWER'], sys.argv[1:])")

    assert 0 == script.main(["check"])
    assert [["create", "peer"], ["-e", ".", "peer==1"]] == installed
    assert "42 ['--check']" == capfd.readouterr().out.splitlines()[-1]


def test_a_peer_that_fails_fails_the_run(script, installed):
    (script.ROOT / "ask.py").write_text("raise SystemExit(3)")

    assert 1 == script.main(["bench"])


def test_a_peer_without_its_script_fails_the_run(script, installed):
    assert not (script.ROOT / "ask.py").exists()
    assert 1 == script.main(["check"])


def test_an_unknown_word_is_answered_with_the_usage(script):
    assert "usage: environments.py main|dev|check|bench" == script.main(["mian"])


def test_both_lists_of_development_requirements_are_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert project["project"]["optional-dependencies"]["dev"] == project["dependency-groups"]["dev"]


def test_every_peer_is_pinned_and_names_its_commands():
    peers = tomllib.loads((ROOT / "integrations" / "environments.toml").read_text(encoding="utf-8"))

    for name, peer in peers.items():
        assert {"requires", "check", "bench"} <= peer.keys() <= {"requires", "check", "bench", "variables"}, (
            name
        )
        assert all("==" in requirement for requirement in peer["requires"]), name
        assert all((ROOT / peer[which][0]).is_file() for which in ("check", "bench")), name
