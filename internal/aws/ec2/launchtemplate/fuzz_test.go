package launchtemplate

import (
	"strings"
	"testing"
)

// FuzzUserData shows that user data are decoded to what may be stored, or refused.
func FuzzUserData(f *testing.F) {
	for _, text := range []string{"", "IyEvYmluL3NoCg==", "IyEv\r\nYmlu", "%", strings.Repeat("AAAA", 6000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := DecodeUserData(&text)
		if err == nil && len(data) > MaxUserData {
			t.Fatalf("%d bytes of user data", len(data))
		}
	})
}
