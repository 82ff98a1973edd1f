# The two commands most readers want:  make book   and   make test
PYTHON ?= python3
PORT ?= 8000
WORKERS ?= 2
CHAPTER ?=
VENV := .venv
BIN := $(VENV)/bin
SITE := book/_build/html
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export PYDEVD_DISABLE_FILE_VALIDATION ?= 1

.DEFAULT_GOAL := help
.PHONY: help book student serve test unit doctest notebooks-check notebooks claims clean

help:            ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

book: $(VENV)/.ready  ## build the site to book/_build/html (warnings are errors)
	@$(BIN)/jupyter-book build . --path-output book -W --keep-going -q
	@$(BIN)/python tools/check_site.py $(SITE)
	@echo "The book is at $(SITE)/index.html (open it in a browser, no network needed; or run: make serve)"

student: $(VENV)/.ready  ## build the students' edition, without solutions, to book/_build/student/_build/html
	@BOOK_EDITION=student $(BIN)/jupyter-book build . --path-output book/_build/student -W --keep-going -q
	@$(BIN)/python tools/check_site.py book/_build/student/_build/html
	@echo "The students' edition is at book/_build/student/_build/html/index.html"

serve: book      ## build, then serve at http://localhost:8000 (PORT=... to change)
	@echo "Serving http://localhost:$(PORT) (stop with Ctrl-C)"
	@$(BIN)/python -m http.server $(PORT) --directory $(SITE)

test:            ## unit tests, doctests, and every notebook against its stored outputs
	@$(MAKE) --no-print-directory --keep-going unit doctest notebooks-check

unit: $(VENV)/.ready
	@echo "== unit tests and claims"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope tests

doctest: $(VENV)/.ready
	@echo "== examples in the package's documentation"
	@$(BIN)/python -m pytest -q --doctest-modules privbandit || [ $$? -eq 5 ]

notebooks-check: $(VENV)/.ready
	@echo "== notebooks, strictly compared with their stored outputs"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout=120 book --ignore=book/_build || [ $$? -eq 5 ]

notebooks: $(VENV)/.ready  ## run every notebook again and store the outputs (CHAPTER=book/part/x.ipynb for one)
	@$(BIN)/python tools/refresh.py $(CHAPTER)

claims: $(VENV)/.ready  ## run the claims' checks and record their results (CHAPTER=prefix_sums for one)
	@$(BIN)/python -m pytest -q --record-claims $(if $(CHAPTER),tests/claims/test_$(CHAPTER)[._]*py,tests/claims --deselect tests/claims/test_ledger.py::test_claim_is_checked_and_not_stale)

clean:           ## remove the built site (the environment stays)
	@rm -rf book/_build

# Made again only when the pins or the package's metadata change.
$(VENV)/.ready: requirements.txt pyproject.toml tools/make_venv.sh
	@PYTHON="$(PYTHON)" bash tools/make_venv.sh $(VENV)
	@touch $@
