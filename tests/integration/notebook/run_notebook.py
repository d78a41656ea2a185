"""run_notebook.py NOTEBOOK: runs the code cells of a notebook, one after the other, as a reader would. Says how many
figures they drew, where matplotlib is there. Exit code 1 where the notebook holds what a run left in it."""
import json
import os
import sys

os.environ["MPLBACKEND"] = "Agg"  # Draws without a screen, and keeps every figure.


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        notebook = json.load(file)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if notebook["nbformat"] != 4 or not code:
        print("not a notebook of format 4 with code")
        return 1
    if any(cell["outputs"] or cell["execution_count"] for cell in code):
        print("a cell has an output, which may show somebody's run: clear all outputs")
        return 1
    names = {"__name__": "__main__"}
    for number, cell in enumerate(code):
        exec(compile("".join(cell["source"]), "cell %d" % number, "exec"), names)
    plt = names["plt"]
    if plt is not None:
        drawn = [plt.figure(number) for number in plt.get_fignums()]
        print("figures: %d, curves: %d" % (len(drawn), sum(len(each.axes[0].lines) for each in drawn)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
