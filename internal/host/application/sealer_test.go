package application

import (
	"bytes"
	"testing"
)

func TestWhatIsSealedIsOfOneLoadBalancerAndPurpose(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{1}, 32)
	mine, same := newSealer(secret, sealsLogins), newSealer(secret, sealsLogins)
	text := mine.seal([]byte("text"), "one")
	if plain, err := same.open(text, "one"); err != nil || string(plain) != "text" {
		t.Errorf("another listener reads %q: %v", plain, err)
	}
	if _, err := newSealer(bytes.Repeat([]byte{2}, 32), sealsLogins).open(text, "one"); err == nil {
		t.Error("another load balancer reads it")
	}
	if _, err := newSealer(secret, sealsStickiness).open(text, "one"); err == nil {
		t.Error("it is read with the key of stickiness")
	}
	for _, text := range []string{text + "x", text[1:], "", "%"} {
		if _, err := mine.open(text, "one"); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if _, err := mine.open(text, "two"); err == nil {
		t.Error("it is read for another purpose")
	}
}

// TestNoSecretIsNoKnownSecret has load balancers that were configured without a secret.
func TestNoSecretIsNoKnownSecret(t *testing.T) {
	t.Parallel()
	seals := make([]*sealer, 2)
	for i := range seals {
		s, err := New(Listener{}, Options{})
		if err == nil {
			t.Error("nobody says so")
		}
		defer s.Close()
		seals[i] = s.state.Load().seal
	}
	if _, err := seals[1].open(seals[0].seal([]byte("text"), "one"), "one"); err == nil {
		t.Error("they have the same")
	}
}
