"""Passwords in ZooKeeper: those of Kafka are decrypted, and what is damaged is refused."""

from __future__ import annotations

import random

import pytest

from kafkalite.security.password_encoder import KEY_FACTORIES, KEY_LENGTHS, PasswordEncoder, PasswordError

# What Kafka 3.9.1 wrote of the password "store-secret" with password.encoder.secret=the-secret.
OF_KAFKA = (
    "initializationVector:qsrbkdaXhfApfQ1mxkSX8Q==,keyLength:128,salt:E91BM0mWtUvBs7HYZFAfUxiiVO9Rn+09HLl7EhMKyFYNnm27"
    "W5kFpSToQ1g6kPft5nYcIJ5ChgnxYkv6E3ka7ffy52vqxH97X1b/cH9M67ypHWr15bxO5kecg13yQ/JHQ0dv1QgeBmttKGByUzJ1nDClv7u4L7As"
    "TxREnu97bW3jG3oKNnnhQKUk7rqMLITJpmYbEaSTVz+okuL0sIRQhQJKS+oguJ+rVYapsgZ3eEhDitBXx5LYkYoUackKXUht9XiIVgPC4OguUSF5"
    "LfKszZgHUcfcWhE0Sa6Tu9tL/CgsgJCT0QxQ17g0G18wRk9YkbtSS6HWlXniLhg2ROahnQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,"
    "cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:12,encryptedPassword:eNOSh3s5AABMtlO8g6a2sg=="
)


def encoder(secret: str = "the-secret", factory: str = "PBKDF2WithHmacSHA512", bits: int = 128) -> PasswordEncoder:
    return PasswordEncoder(secret, random.Random(3).randbytes, factory, bits, 1024)


def test_a_password_that_kafka_encrypted_is_decrypted() -> None:
    assert encoder().decode(OF_KAFKA) == "store-secret"


@pytest.mark.parametrize("factory", KEY_FACTORIES)
@pytest.mark.parametrize("bits", KEY_LENGTHS)
def test_an_encrypted_password_says_how_it_is_decrypted(factory: str, bits: int) -> None:
    text = encoder(factory=factory, bits=bits).encode("päss,wörd:𝄞")
    assert "päss" not in text
    assert encoder().decode(text) == "päss,wörd:𝄞"


def test_fields_are_those_of_kafka() -> None:
    names = {part.partition(":")[0] for part in encoder().encode("x").split(",")}
    assert names == {part.partition(":")[0] for part in OF_KAFKA.split(",")}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("store-secret", "not encrypted by password.encoder.secret"),
        ("", "not encrypted by password.encoder.secret"),
        (OF_KAFKA.replace("passwordLength:12", "passwordLength:13"), "another length"),
        (OF_KAFKA.replace("AES/CBC", "AES/GCM"), "only AES/CBC/PKCS5Padding is served"),
        (OF_KAFKA.replace("keyLength:128", "keyLength:100"), "100 bits"),
        (OF_KAFKA.replace("iterations:4096", "iterations:0"), "damaged"),
        (OF_KAFKA.replace("SHA512", "SHA3"), "damaged"),
        (OF_KAFKA.replace("eNOSh3s5", "eNOSh3s"), "damaged"),
    ],
)
def test_a_text_that_cannot_be_decrypted_is_refused(text: str, why: str) -> None:
    with pytest.raises(PasswordError) as caught:
        encoder().decode(text)
    assert why in str(caught.value)
    assert "the-secret" not in str(caught.value)


def test_another_secret_decrypts_nothing() -> None:
    with pytest.raises(PasswordError):
        encoder("guess").decode(OF_KAFKA)


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(encoder())
