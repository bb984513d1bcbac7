"""Names of principals become names of users as Kafka's KerberosNameTest and its rules say."""

from __future__ import annotations

import pytest

from kafkalite.security.kerberos_names import KerberosName, KerberosShortNamer

APPS = (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT")
LOWER = (r"RULE:[1:$1]/L", r"RULE:[2:$1](Test.*)s/ABC///L", r"RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L", "RULE:[2:$1]/L")
UPPER = (r"RULE:[1:$1]/U", r"RULE:[2:$1](Test.*)s/ABC///U", r"RULE:[2:$1](ABC.*)s/ABC/XYZ/g/U", "RULE:[2:$1]/U")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("App.service-name/example.com@REALM.COM", ("App.service-name", "example.com", "REALM.COM")),
        ("user@REALM.COM", ("user", None, "REALM.COM")),
        ("user", ("user", None, None)),
        ("us/er", ("us/er", None, None)),
        ("@REALM.COM", ("", None, "REALM.COM")),
    ],
)
def test_a_name_has_a_service_a_host_and_a_realm(text: str, name: tuple[str, str | None, str | None]) -> None:
    assert KerberosName.parse(text) == name


@pytest.mark.parametrize("text", ["a/b/c@REALM", "a@b@c", "a@b/c"])
def test_a_malformed_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Malformed Kerberos name"):
        KerberosName.parse(text)
    with pytest.raises(LookupError, match="Malformed Kerberos name"):
        KerberosShortNamer(("DEFAULT",), "REALM").short_name(text)


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (APPS, "App.service-name/example.com@REALM.COM", "service-name"),
        (APPS, "App.service-name@REALM.COM", "service-name"),
        (APPS, "user/host@REALM.COM", "user"),
        (APPS, "user", "user"),
        (LOWER, "User@REALM.COM", "user"),
        (LOWER, "TestABC/host@FOO.COM", "test"),
        (LOWER, "ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        (LOWER, "App.SERVICE-name/example.com@REALM.COM", "app.service-name"),
        (LOWER, "User/root@REALM.COM", "user"),
        (UPPER, "User@REALM.COM", "USER"),
        (UPPER, "TestABC/host@FOO.COM", "TEST"),
        (UPPER, "ABC_User_ABC/host@FOO.COM", "XYZ_USER_XYZ"),
        (UPPER, "App.SERVICE-name/example.com@REALM.COM", "APP.SERVICE-NAME"),
        (("RULE:[2:$1;$2@$0]",), "a/b@REALM.COM", None),
        (("RULE:[2:$1;$2]",), "a/b@REALM.COM", "a;b"),
        (("RULE:[2:$1.$2]", "DEFAULT"), "a@REALM.COM", "a"),
        (("RULE:[1:$1](x.*)", "DEFAULT"), "xa@OTHER.COM", "xa"),
        (("RULE:[1:$1](x.*)", "DEFAULT"), "a@OTHER.COM", None),
        (("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//",), "a@OTHER.COM", "a"),
        (("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//",), "a@REALM.COM", None),
        (("RULE:[1:$1]U",), "a@REALM.COM", "A"),
        (("RULE:[1:$1]s/a/b/",), "aa@REALM.COM", "ba"),
        (("RULE:[1:$1]s/a/b/g",), "aa@REALM.COM", "bb"),
        (("RULE:[1:$1]s/(a)(b)/$2$1/",), "ab@REALM.COM", "ba"),
        (("DEFAULT",), "a/b@OTHER.COM", None),
        # Kafka has an empty name for it.
        (("RULE:[1:$1]s/a//", "DEFAULT"), "a@REALM.COM", None),
        ((), "a@REALM.COM", None),
    ],
)
def test_the_first_rule_that_gives_a_name_counts(rules: tuple[str, ...], principal: str, user: str | None) -> None:
    namer = KerberosShortNamer(rules, "REALM.COM")
    if user is None:
        with pytest.raises(LookupError, match=r"No rules apply|Non-simple name|an empty name"):
            namer.short_name(principal)
    else:
        assert namer.short_name(principal) == user


@pytest.mark.parametrize(
    "rule",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "RULE:[1:$1",
        "RULE:[:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](x",
        "RULE:[1:$1]/l",
        "RULE:[1:$1]/LU",
        "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g",
        "RULE:[2:$1]s/ABC/XYZ/g/X",
        "RULE:[1:$1]s/(/x/",
        "RULE:[1:$1]s/a/$5$/",
    ],
)
def test_a_wrong_rule_is_refused(rule: str) -> None:
    """Kafka takes some of them at its start, and fails at each login."""
    with pytest.raises(ValueError, match="Invalid rule"):
        KerberosShortNamer((rule,), "REALM.COM")
