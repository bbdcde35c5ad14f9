"""Tasks: the recipe's training, and strings that were never seen."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytenet.config import load_recipe
from bytenet.evaluation.comparison.rows import ROWS
from bytenet.evaluation.comparison.tasks import TASKS, Lesson, unseen

RECIPES = Path(__file__).parents[3] / "recipes"


@pytest.mark.parametrize("task", TASKS)
def test_the_lesson_is_that_of_the_recipe(task):
    recipe = load_recipe(RECIPES / f"compare-{task}.toml")
    for row in ROWS:
        lesson = Lesson().recipe(row, task)
        assert lesson == replace(recipe, model=row.config, description=lesson.description)
        assert row.config.unfolding == recipe.model.unfolding


def test_strings_to_test_with_were_not_learnt_from():
    learnt = {f"{n:02}" for n in range(90)}
    assert unseen(2, 5, learnt) == unseen(2, 5, learnt)
    assert len(set(unseen(2, 5, learnt))) == 5
    assert unseen(2, 50, learnt) == [f"{n:02}" for n in range(90, 100)]
