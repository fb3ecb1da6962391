"""Who may talk to the page: the person who holds the address, from the page itself, nobody else."""

import asyncio

import pytest
from visitors import HOST, ORIGIN, Person, TestClient

from noisette.app.studio import app as studio_app

PATHS = ("", "kit.css", "static/studio.js", "w/x/facts", "r/x", "r/x/report", "r/x/files/model")


@pytest.fixture
def stranger(person):
    return TestClient(person.app, base_url=f"http://{HOST}", follow_redirects=False)


def test_without_the_token_there_is_nothing(person, stranger):
    for path in ("/", "/?token=", "/?token=guess", "/kit.css", "/static/studio.js"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    for path in PATHS:  # not even for somebody who has learnt the secret path
        answer = stranger.get(f"{person.keys.base}/{path}")
        assert answer.status_code == 403
        assert answer.text.startswith("noisette: open the address")
        assert person.keys.form not in answer.text


def test_the_token_gives_a_cookie_that_no_script_and_no_other_site_gets(person, stranger):
    answer = stranger.get("/", params={"token": person.keys.token})
    assert answer.status_code == 200  # no redirect: a strict cookie would not follow it
    assert f'content="0; url={person.keys.base}/"' in answer.text
    assert person.keys.token not in answer.text
    cookie = answer.headers["set-cookie"]
    for word in ("HttpOnly", "SameSite=Strict", f"Path={person.keys.base}/"):
        assert word in cookie  # the path is secret, because cookies know no ports
    assert person.page.status_code == 200
    assert "Which table?" in person.page.text


def test_two_studios_share_no_secret(tmp_path):
    one, other = Person(tmp_path).keys, Person(tmp_path).keys
    assert not {one.token, one.cookie, one.form, one.base} & {
        other.token, other.cookie, other.form, other.base,
    }  # fmt: skip
    assert one.token not in repr(one)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost:8000", "127.0.0.1", "127.0.0.1:8001",
     "0.0.0.0:8000", ""],
)  # fmt: skip
def test_another_name_for_this_machine_is_refused(person, host):
    """A name of somebody's server may point to 127.0.0.1 (DNS rebinding)."""
    answer = person.client.get(f"{person.keys.base}/", headers={"Host": host})
    assert answer.status_code == 403
    assert "table" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {},
        {"Origin": "http://127.0.0.1:8001"}, {"Origin": "http://localhost:8000"},
        {**ORIGIN, "Sec-Fetch-Site": "cross-site"}, {**ORIGIN, "Sec-Fetch-Site": "same-site"},
    ],
    ids=["elsewhere", "null", "none", "port", "name", "cross-site", "same-site"],
)  # fmt: skip
def test_a_form_of_another_page_is_refused(person, patients, headers):
    data = {"csrf": person.keys.form, "path": str(patients)}
    place = f"{person.keys.base}/table"
    answer = person.client.post(place, data=data, headers=headers)
    assert answer.status_code == 403
    good = person.client.post(place, data=data, headers={**ORIGIN, "Sec-Fetch-Site": "same-origin"})
    assert "What is public about" in good.text


@pytest.mark.parametrize("key", ["", "guess", "ключ"])
def test_a_form_without_its_key_is_refused(person, patients, key):
    answer = person.client.post(
        f"{person.keys.base}/table", data={"csrf": key, "path": str(patients)}, headers=ORIGIN
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(person, method):
    assert person.client.request(method, f"{person.keys.base}/").status_code == 403


def test_a_form_without_end_is_refused(person):
    place = f"{person.keys.base}/table"
    large = person.client.post(place, content=b"x" * (9 << 20), headers=ORIGIN)
    assert large.status_code == 403
    chunked = person.client.post(place, content=iter([b"csrf=1"]), headers=ORIGIN)
    assert chunked.status_code == 403


def test_files_are_not_taken(person):
    answer = person.client.post(
        f"{person.keys.base}/table", data={"csrf": person.keys.form}, headers=ORIGIN,
        files={"path": ("a.csv", b"a,b")},
    )  # fmt: skip
    assert answer.status_code == 400


def test_every_answer_has_the_policy(person, stranger):
    pages = [person.get(""), person.get("kit.css"), person.get("static/htmx.min.js"),
             person.get("nowhere"), stranger.get("/")]  # fmt: skip
    for answer in pages:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    assert [answer.status_code for answer in pages] == [200, 200, 200, 404, 403]


def test_pages_have_nothing_inline(person, patients):
    person.choose(patients)
    for text in (person.get("").text, person.page.text):
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count("<script src=") == 2


def test_files_outside_of_the_static_folder_are_not_served(person):
    for path in ("static/../app.py", "static/%2e%2e/app.py", "static/..%2fapp.py"):
        assert person.get(path).status_code == 404


def test_a_fault_is_told_without_its_text(person, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("somebody's cell 4711")

    monkeypatch.setattr(studio_app.pages, "page", broken)
    answer = person.get("")
    assert answer.status_code == 500
    assert "a fault in the program (RuntimeError)" in answer.text
    assert "4711" not in answer.text


def asked(app, scope):
    """Send one bare request; return the messages of the answer."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b""}

    asyncio.run(app(scope, receive, send))
    return sent


def test_a_request_with_two_hosts_and_a_websocket_are_refused(person):
    headers = [(b"host", HOST.encode()), (b"host", b"evil.example"),
               (b"cookie", f"noisette_studio={person.keys.cookie}".encode())]  # fmt: skip
    scope = {"type": "http", "method": "GET", "path": f"{person.keys.base}/", "headers": headers,
             "query_string": b""}  # fmt: skip
    assert asked(person.app, scope)[0]["status"] == 403
    scope["headers"] = headers[:1] + headers[2:]
    assert asked(person.app, {**scope, "root_path": ""})[0]["status"] == 200
    assert asked(person.app, {"type": "websocket", "path": "/", "headers": []}) == [
        {"type": "websocket.close", "code": 1008}
    ]
