"""python -m tallystick FILE runs the agent of FILE for one turn;
python -m tallystick vendor bench/CLASS puts what @rubric needs beside a rubric."""

import os
import shutil
import sys


def vendor(class_dir: str) -> int:
    beside = os.path.join(class_dir, "rubric")
    os.makedirs(beside, exist_ok=True)
    shutil.copyfile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rubric.py"), os.path.join(beside, "tallystick.py"))
    print(f"wrote {os.path.join(beside, 'tallystick.py')}; it is part of the rubric, so run: tally bench digest CLASS")
    return 0


def main(args: "list[str]") -> int:
    if len(args) == 2 and args[0] == "vendor":
        return vendor(args[1])
    if len(args) == 4 and args[0] == "task":
        from .evals import task_main

        return task_main(*args[1:])
    if len(args) == 1 and not args[0].startswith("-"):
        from .agent import main as answer

        return answer(args[0])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
