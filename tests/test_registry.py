"""Names and what they stand for; packages that bring their own are in tests/plugin."""

import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from r2et.errors import CheckpointError, InputError, TrustError
from r2et.registry import Registry


@dataclass(frozen=True)
class Sound:
    """What the things of these tests are."""

    volume: float = 1.0


def registry(**options: Any) -> Registry[type[Sound]]:
    return Registry("sound", "r2et.sounds", package="r2et.numerics", base=Sound, **options)


@pytest.fixture
def sounds():
    made = registry()

    @made.register("bell", title="Bell", defaults={"pitch": 440.0}, grid={"pitch": (220.0, 440.0)})
    @dataclass(frozen=True)
    class Bell(Sound):
        pitch: float = 440.0
        echo: Sound | None = None
        partials: tuple[float, ...] = (1.0, 2.0)

    return made


# --- finding ----------------------------------------------------------------------------------------------------


def test_an_entry_tells_what_was_registered(sounds):
    bell = sounds.find("bell")
    assert (bell.name, bell.title, bell.defaults["pitch"], bell.grid["pitch"]) == (
        "bell",
        "Bell",
        440.0,
        (220.0, 440.0),
    )
    assert sounds.find(bell.thing) is bell
    assert sounds.names() == ("bell",)


def test_what_is_not_registered_has_the_name_of_its_code(sounds):
    assert sounds.name_of(Sound) == "tests.test_registry:Sound"
    assert sounds.find("tests.test_registry:Sound").thing is Sound
    assert sounds.find(Sound).name == "tests.test_registry:Sound"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bel", "unknown sound 'bel': did you mean 'bell'"),
        (5, "unknown sound 5"),
        (None, "unknown sound None"),
        (
            "collections:Counter",
            "sound 'collections:Counter' must be a complete subclass of tests",
        ),
        ("collections:namedtuple", "must be a complete subclass"),
        (int, "sound 'builtins:int' must be a complete subclass"),
        ("nowhere:Bell", "module 'nowhere' of 'nowhere:Bell' cannot be imported"),
    ],
)
def test_what_is_no_sound_is_told(sounds, name, message):
    with pytest.raises(InputError, match=message):
        sounds.find(name)


def test_a_name_stands_for_one_thing(sounds):
    with pytest.raises(InputError, match=r"'bell' is the sound tests\.test_registry:.*Bell already"):
        sounds.register("bell")(Sound)
    # the same cell of a notebook again: the new class takes the place of the old one
    again = replace(sounds.find("bell")).thing
    copied = type(again.__name__, (again,), {"__module__": again.__module__, "__qualname__": again.__qualname__})
    sounds.register("bell")(copied)
    assert sounds.find("bell").thing is copied


@pytest.mark.parametrize("name", ["", "own.package:Bell"])
def test_a_name_is_a_word(sounds, name):
    with pytest.raises(InputError, match="is a word without a colon"):
        sounds.register(name)


def test_an_abstract_class_is_no_thing():
    from r2et.attacks import ATTACKS, Attack

    with pytest.raises(InputError, match="complete subclass"):
        ATTACKS.register("own")(Attack)


def test_the_registry_needs_no_torch():
    code = "import sys, r2et.registry; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- making -----------------------------------------------------------------------------------------------------


def test_a_thing_is_made_by_name_class_or_from_another(sounds):
    bell = sounds.find("bell").thing
    assert sounds.create("bell", pitch=1.0) == sounds.create(bell, pitch=1.0) == bell(pitch=1.0)
    assert sounds.create(bell(pitch=1.0), volume=3.0) == bell(volume=3.0, pitch=1.0)
    assert sounds.create(ready := bell()) is ready


@pytest.mark.parametrize("what", ["name", "class", "object"])
def test_a_setting_that_there_is_not(sounds, what):
    bell = sounds.find("bell").thing
    with pytest.raises(InputError, match=r"sound 'bell' has no setting 'picth': did you mean 'pitch'\?"):
        sounds.create({"name": "bell", "class": bell, "object": bell()}[what], picth=3.0)


def test_a_setting_that_is_needed(sounds):
    @sounds.register("drum")
    @dataclass(frozen=True, kw_only=True)
    class Drum(Sound):
        skin: str

    with pytest.raises(InputError, match="sound 'drum' needs skin"):
        sounds.create("drum", volume=2.0)


def test_a_class_that_takes_anything(sounds):
    @sounds.register("noise")
    class Noise(Sound):
        def __init__(self, **settings):
            if "bad" in settings:
                raise TypeError("not this one")

    assert sounds.create("noise", anything=3)
    with pytest.raises(InputError, match=r"sound 'noise' cannot be built with .*bad.*: not this one"):
        sounds.create("noise", bad=1)


# --- files ------------------------------------------------------------------------------------------------------


def test_a_description_brings_the_same_thing_back(sounds):
    bell = sounds.find("bell").thing
    thing = bell(volume=2.0, pitch=3.0, echo=bell(partials=(5.0,)))
    described = sounds.describe(thing)
    assert described["name"] == "bell"
    assert described["echo"]["kind"] == "sound"
    assert described["partials"] == [1.0, 2.0]
    assert sounds.restore(described) == thing


def test_what_json_cannot_hold_is_refused_unless_it_is_the_default(sounds):
    @sounds.register("siren")
    @dataclass(frozen=True)
    class Siren(Sound):
        turns: Any = field(default_factory=set)
        calls: Any = field(default_factory=object, init=False, compare=False)

    assert sounds.describe(Siren()) == {"name": "siren", "volume": 1.0}
    assert sounds.restore(sounds.describe(Siren())) == Siren()
    with pytest.raises(InputError, match="cannot be described in a checkpoint: turns is set"):
        sounds.describe(Siren(turns={1}))


def test_a_class_inside_of_a_function_has_no_name_in_a_file(sounds):
    class Local(Sound):
        pass

    with pytest.raises(InputError, match=r"test_registry:.*<locals>\.Local is inside of a function"):
        sounds.describe(Local())


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"name": "bel"},
        {"name": "bell", "picth": 1},
        {"name": 5},
        {"name": ["bell"]},
        {"name": "bell", "echo": {"kind": "smell", "name": "bell"}},
        {"name": "bell", "echo": {"name": "bell"}},
        {"name": "bell", "echo": {"kind": "sound", "name": "bel"}},
        5,
    ],
)
def test_a_description_of_nothing(sounds, description):
    with pytest.raises(CheckpointError):
        sounds.restore(description)


MARK = "from pathlib import Path\nPath('imported').touch()\n"


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported."""
    code = "from tests.test_registry import Sound\nclass Gong(Sound): pass\nclass Other: pass\n"
    (tmp_path / "own_gong.py").write_text(MARK + code)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "imported"


def test_code_that_a_file_names_is_not_imported(sounds, foreign):
    for name in ("own_gong:Gong", "own_gong:Other", "os:system"):
        with pytest.raises(TrustError, match=f"the file names the sound '{name}', which is neither"):
            sounds.stored(name)
        with pytest.raises(TrustError, match=r"pass trust=\['.*'\] \(--trust "):
            sounds.restore({"name": "bell", "echo": {"kind": "sound", "name": name}})
    with pytest.raises(TrustError):
        sounds.stored("own_gong:Gong", trust=["own_gong:Other"])
    assert not foreign.exists()


def test_the_same_name_of_a_person_is_imported(sounds, foreign):
    assert sounds.find("own_gong:Gong").name == "own_gong:Gong"
    assert foreign.exists()


def test_code_that_a_file_names_and_the_caller_too(sounds, foreign):
    gong = sounds.stored("own_gong:Gong", trust=["own_gong:Gong"]).thing
    assert foreign.exists()
    assert sounds.restore({"name": "own_gong:Gong", "volume": 2.0}, trust=[gong]) == gong(2.0)
    with pytest.raises(InputError, match="must be a complete subclass"):
        sounds.stored("own_gong:Other", trust=["own_gong:Other"])
    # it has been imported by now, and still a file alone cannot name it
    with pytest.raises(TrustError):
        sounds.stored("own_gong:Gong")
    sounds.register("gong")(gong)
    assert sounds.stored("own_gong:Gong").name == "gong"


# --- objects in place of classes --------------------------------------------------------------------------------


def test_objects_can_be_registered_too():
    made = registry(instances=True)
    quiet = made.register("quiet")(Sound(0.1))
    assert made.find("quiet").thing is quiet
    with pytest.raises(InputError, match=r"sound 'class' must be tests\.test_registry:Sound, got <class"):
        made.register("class")(Sound)
