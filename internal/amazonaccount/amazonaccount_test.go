package amazonaccount_test

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/region"
)

func TestAccountsOfAmazon(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]struct{ is, owns bool }{
		"602401143452": {true, true},  // most regions
		"877085696533": {true, true},  // af-south-1
		"533267051163": {true, true},  // ap-east-2
		"305882430652": {true, false}, // API servers
		"092701018921": {true, false}, // Bottlerocket
		"137112412989": {true, false}, // Amazon Linux
		"111122223333": {false, false},
	} {
		if is, owns := amazonaccount.Is(account), amazonaccount.OwnsRegistry(account); is != want.is || owns != want.owns {
			t.Errorf("%s: %t, %t; want %+v", account, is, owns, want)
		}
	}
}

// TestRegistriesAreAmazons: no account can be made that owns the registry of a region.
func TestRegistriesAreAmazons(t *testing.T) {
	t.Parallel()
	for _, code := range region.Codes() {
		if owner := amazonaccount.Registry(code); !amazonaccount.Is(owner) || !amazonaccount.OwnsRegistry(owner) {
			t.Errorf("the owner of the registry in %s, %s, is not Amazon's", code, owner)
		}
	}
	if got := amazonaccount.Registry("mx-central-1"); got != "730335286997" {
		t.Errorf("the owner in mx-central-1 is %s", got)
	}
}
