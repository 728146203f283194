"""An address that sends many wrong tokens has to wait; others do not."""

from tersely.http.guesses import ALLOWED, MAX_ADDRESSES, WINDOW_SECONDS, WrongTokens


def test_an_address_waits_after_many_wrong_tokens_until_the_window_has_passed() -> None:
    now = 1_000.0
    wrong = WrongTokens(clock=lambda: now)
    for number in range(ALLOWED):
        assert wrong.seconds_to_wait("10.0.0.1") == 0
        assert wrong.add("10.0.0.1") == number + 1
    assert wrong.seconds_to_wait("10.0.0.1") == WINDOW_SECONDS
    assert wrong.seconds_to_wait("10.0.0.2") == 0
    now += WINDOW_SECONDS - 0.5
    assert wrong.seconds_to_wait("10.0.0.1") == 1
    now += 0.5
    assert wrong.seconds_to_wait("10.0.0.1") == 0


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    wrong = WrongTokens(clock=lambda: 0.0)
    for number in range(MAX_ADDRESSES + 10):
        wrong.add(str(number))
    assert len(wrong._times) == MAX_ADDRESSES and "0" not in wrong._times
