# Every target sets itself up: a .venv in the checkout, with the versions of constraints.txt.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed-by-make
EXTRAS := faiss,minari,tensorboard,lm,server,view,control,dev
# What only the long batteries need: Ray takes 240 MB.
FULL_STAMP := .venv/.installed-for-test-full
FULL_EXTRAS := ray

# Small arrays: more threads would only wait for each other.
test test-full wheel: export OMP_NUM_THREADS ?= 1
# What the batteries of faults have counted.
test-full: export RADT_FAULTS ?= results/memory/faults.json

.PHONY: help setup browser games run demo view test test-full lint docs screenshots wheel lock clean

help:  ## say what each target does
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) browser games  ## make .venv and install radt into it (quick the second time)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	touch $(STAMP)

$(FULL_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(FULL_EXTRAS)]"
	touch $(FULL_STAMP)

browser:  # for the tests of the viewer: installed as root, otherwise only looked for
	@scripts/browser.sh

games:  # the library that Procgen draws with: installed as root, otherwise only looked for
	@scripts/games.sh

run: setup  ## the main job: collect, train, evaluate and report on Dark-Room 10x10
	$(BIN)/radt run dark-room-10x10 --method ra-dt-tuned --budget laptop --seed 0 --out runs/dark-room-10x10

demo: setup  ## the trained agent at work in the terminal, without training
	$(BIN)/radt demo

view: setup  ## the trained agent at work in the browser, and the runs in runs/
	$(BIN)/radt view $(wildcard runs) --open

lint: setup  ## style, types and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## what every change must pass
	$(BIN)/python -m pytest -n auto --dist loadfile

test-full: lint $(FULL_STAMP)  ## the long batteries too; the report goes to results/test-full.txt
	mkdir -p results
	$(BIN)/python -m pytest --no-header --color=no --cov=radt -m "long or not long" | tee results/test-full.txt

docs: setup  ## build the pages of docs/ into site/, a folder that needs no server
	$(BIN)/mkdocs build --quiet --strict
	@echo open site/index.html

screenshots: setup  ## take the pictures of docs/images anew, from small runs
	$(BIN)/python scripts/screenshots.py

wheel: setup  ## build dist/*.whl and try it outside the checkout
	$(BIN)/python scripts/wheel_smoke.py --out dist

lock: setup $(FULL_STAMP)  ## write constraints.txt from what .venv holds
	$(BIN)/python scripts/lock.py --extras $(EXTRAS),$(FULL_EXTRAS) --out constraints.txt
	touch $(STAMP) $(FULL_STAMP)

clean:  ## remove what the tools leave behind, but not .venv, data or runs
	rm -rf build dist site .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
