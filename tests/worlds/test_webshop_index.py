"""The index file: made once, whole or not at all, read by all, and a search that gives the same everywhere."""

import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.worlds.text.webshop import stock
from paceline.worlds.text.webshop.index import HITS, Index
from paceline.worlds.text.webshop.stock import Source, cache_directory, open_stock

SOURCE = Source(seed=0, products=60)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    open_stock.cache_clear()
    return tmp_path


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("index") / "shop.sqlite"
    stock._write(path, SOURCE)
    return Index(path)


# -- the file ----------------------------------------------------------------------------------------------


def test_it_is_made_once_and_then_only_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_stock(SOURCE)
    (path,) = cache.glob("webshop/*.sqlite")
    assert first.path == path
    assert open_stock(SOURCE) is first
    assert not list(cache.glob("webshop/*.part"))
    open_stock.cache_clear()
    monkeypatch.setattr(Source, "goods", None)  # nobody makes anything now
    assert open_stock(SOURCE).goal(0) == first.goal(0)


def test_its_name_follows_from_what_is_in_it() -> None:
    sources = [SOURCE, Source(1, 60), Source(0, 61), Source(0, 60, first=5), Source(0, 60, human_goals=True)]
    assert len({source.key() for source in sources}) == len(sources)
    assert SOURCE.key() == Source(0, 60).key()


def test_many_who_need_it_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    write = stock._write
    monkeypatch.setattr(stock, "_write", lambda path, source: (made.append(path), write(path, source)))
    path = cache / "webshop" / "one.sqlite"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: stock._make(path, SOURCE), range(4)))
    assert made == [path]
    assert Index(path).product_count == 60


def test_where_locks_do_not_hold_the_file_is_still_whole(cache: Path) -> None:
    path = cache / "two.sqlite"
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: stock._write(path, SOURCE), range(2)))
    assert Index(path).goal_count > 60
    assert [file.name for file in cache.iterdir()] == ["two.sqlite"]


def test_a_failure_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(stock, "write_index", fail)
    with pytest.raises(BadInput, match=r"disk is full.*PACELINE_CACHE"):
        open_stock(SOURCE)
    assert not list(cache.glob("webshop/*.sqlite"))
    assert not list(cache.glob("webshop/*.part"))


def test_a_cache_that_cannot_be_written_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "file").write_text("in the way")
    monkeypatch.setenv("PACELINE_CACHE", str(cache / "file"))
    with pytest.raises(BadInput, match="set PACELINE_CACHE to a directory"):
        open_stock(SOURCE)


def test_the_cache_is_where_the_environment_says(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_directory() == cache
    monkeypatch.delenv("PACELINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_directory() == Path("/x/paceline")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_directory() == Path("/home/somebody/.cache/paceline")


def test_something_else_in_its_place_is_told(cache: Path) -> None:
    path = cache / "odd ?#%.sqlite"
    path.write_text("this is no index, but it is long enough to be looked at" * 20)
    with pytest.raises(BadInput, match="delete it"):
        Index(path)
    with pytest.raises(BadInput, match="cannot be opened"):
        Index(cache / "missing.sqlite")


def test_nobody_can_write_to_it(index: Index) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        index._connection.execute("DELETE FROM goals")


def test_a_forked_child_opens_its_own(index: Index) -> None:
    copy = Index(index.path)
    parents = copy._connection
    copy._process = -1  # as a child finds it
    assert copy.search("wool socks") == index.search("wool socks")
    assert copy._connection is not parents
    parents.execute("SELECT 1")  # … and leaves the parent's open
    parents.close()


def test_it_travels_as_its_path_and_serves_threads(index: Index) -> None:
    copy = pickle.loads(pickle.dumps(index))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: copy.product(copy.search(f"size {n}")[0]).asin, [str(n) for n in range(40)]))
    assert found == [index.product(index.search(f"size {n}")[0]).asin for n in range(40)]


# -- the search --------------------------------------------------------------------------------------------


def test_it_finds_by_stem_and_any_word_will_do(index: Index) -> None:
    products = [index.product(number) for number in range(index.product_count)]
    wanted = {number for number, product in enumerate(products) if "socks" in product.title.lower()}
    assert wanted
    assert wanted <= set(index.search("sock"))
    assert wanted <= set(index.search("SOCKS zeppelin"))
    assert index.search("zeppelin") == ()


def test_a_title_finds_its_product_first(index: Index) -> None:
    first = [index.search(index.product(number).title)[0] for number in range(index.product_count)]
    assert first == list(range(index.product_count))


def test_small_words_are_not_looked_for(index: Index) -> None:
    assert index.search("the and of with") == ()
    assert index.search("the wool of") == index.search("wool")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200) | st.text('"*^:()+-{} ORNEARAND\x00\n', max_size=60))
def test_any_text_can_be_searched_for(index: Index, text: str) -> None:
    found = index.search(text)
    assert len(found) <= HITS
    assert len(set(found)) == len(found)
    assert index.search(text) == found


def test_a_very_long_query_is_cut(index: Index) -> None:
    assert index.search("wool " + "x" * 10_000_000) == index.search("wool " + "x" * 995)
    assert index.search(" ".join(f"w{n}" for n in range(100))) == ()


def test_listings_are_in_the_order_asked_for(index: Index) -> None:
    asins = [listing.asin for listing in index.listings([5, 2, 9])]
    assert asins == [index.product(number).asin for number in (5, 2, 9)]
    assert [index.number_of(asin) for asin in asins] == [5, 2, 9]
    assert index.listings([]) == []
