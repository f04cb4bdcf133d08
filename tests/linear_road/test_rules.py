"""Rule sets: by name, or with a user-defined function."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from linear_road.engine_in_memory import Engine
from slipstream._errors import BadArgument
from slipstream._linear_road.rules import Rules, find_rules


def test_a_users_toll_function_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flat.py").write_text("import numpy as np\n\ndef three(lav, cars):\n    return np.full(lav.size, 3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    rules = find_rules("flat:three")
    assert rules.toll(np.array([1]), np.array([1])).tolist() == [3]
    feed = [f"0,{30 * k},1,50,0,1,0,{k},{k * 5280}" + ",-1" * 6 for k in range(4)]
    feed.append("2,90,1" + ",-1" * 6 + ",7" + ",-1" * 5)
    engine = Engine(rules="flat:three").run([feed])
    assert [output for output in engine.outputs if output[0] == 2] == [(2, 90, 90, 7, 9)]


@pytest.mark.parametrize("name", ["1999", "nowhere:toll", "math:no_such_function"])
def test_unknown_rules_are_refused_by_name(name: str) -> None:
    with pytest.raises(BadArgument, match=f"--rules {name}"):
        find_rules(name)


def test_rules_of_a_script_can_be_pickled_with_the_state_that_has_them() -> None:
    """Workers share their state by plain pickle, which knows no function of ``__main__``."""
    rules = Rules("own", toll=lambda lav, cars: lav + cars)
    again = pickle.loads(pickle.dumps(rules))
    assert again.toll(np.array([1]), np.array([2])).tolist() == [3]
    assert pickle.loads(pickle.dumps(again)).name == "own"
