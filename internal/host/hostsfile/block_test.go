package hostsfile

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

func entries(n int) (all []Entry) {
	for i := range n {
		names := []string{"%032X.gr7.eu-west-1.eks.amazonaws.com", "web-%d.eu-west-1.elb.amazonaws.com",
			"net-%016x.elb.eu-west-1.amazonaws.com"}
		all = append(all, Entry{netip.AddrFrom4([4]byte{198, 18, 8, byte(16 + i)}),
			fmt.Sprintf(names[i%len(names)], i)})
	}
	return all
}

func TestABlockComesChangesAndGoes(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	const theirs = "127.0.0.1 localhost\n# mine\n10.0.0.1 db"
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	inode := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := inode()
	for _, n := range []int{1, 3, 2, 2} {
		for _, owner := range []string{"aaaa", "bbbb"} {
			if err := setEntries(t.Context(), file, owner, entries(n)); err != nil {
				t.Fatal(err)
			}
		}
		got := read()
		if !strings.HasPrefix(got, theirs+"\n") || strings.Count(got, amazonDomain) != 2*n ||
			strings.Count(got, "# end") != 2 {
			t.Fatalf("with %d entries each:\n%s", n, got)
		}
	}
	// One that finds its block leaves the file alone, wherever in it the block is.
	before := inode().ModTime()
	if err := setEntries(t.Context(), file, "aaaa", entries(2)); err != nil || inode().ModTime() != before {
		t.Errorf("an unchanged block was written again (%v)", err)
	}
	if had, err := removeBlock(t.Context(), file, "aaaa"); !had || err != nil {
		t.Errorf("remove: %v, %v", had, err)
	}
	if got := read(); strings.Contains(got, "aaaa") || strings.Count(got, amazonDomain) != 2 {
		t.Errorf("after one was removed:\n%s", got)
	}
	if had, err := removeBlock(t.Context(), file, "aaaa"); had || err != nil {
		t.Errorf("remove again: %v, %v", had, err)
	}
	if err := setEntries(t.Context(), file, "bbbb", nil); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != theirs+"\n" {
		t.Errorf("in the end: %q", got)
	}
	if !os.SameFile(first, inode()) {
		t.Error("the file was replaced, which a mount does not allow")
	}
}

func TestATornBlockIsRepairedAndTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	file := filepath.Join(t.TempDir(), "hosts")
	torn := "127.0.0.1 localhost\n" + opening("aaaa") + "\n198.18.8.3 oidc.eks.eu-west-1.amazonaws.com\n" +
		"198.18.8.16 X" + domain + "\n10.0.0.1 db\n"
	if err := os.WriteFile(file, []byte(torn), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := removeBlock(t.Context(), file, "aaaa"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); string(got) != "127.0.0.1 localhost\n10.0.0.1 db\n" {
		t.Errorf("%q", got)
	}
}

func TestDaemonsDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	file := filepath.Join(t.TempDir(), "hosts")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := 1; n < 10; n++ {
				if err := setEntries(t.Context(), file, fmt.Sprintf("owner%d", i), entries(n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, _ := os.ReadFile(file); strings.Count(string(got), amazonDomain) != 8*9 {
		t.Errorf("%s", got)
	}
	if had, err := removeBlock(t.Context(), filepath.Join(t.TempDir(), "none"), "x"); had || err != nil {
		t.Errorf("without a file: %v, %v", had, err)
	}
}

func TestAddressesOfAllDaemons(t *testing.T) {
	t.Parallel()
	const issuer = "oidc.eks.eu-west-1.amazonaws.com"
	file := filepath.Join(t.TempDir(), "hosts")
	text := "192.0.2.1 " + issuer + "\n" + opening("aaaa") + "\n198.18.8.3 " + issuer + "\n198.18.8.16 X" + domain +
		"\n" + closing("aaaa") + "\n192.0.2.2 " + issuer + "\n" + opening("bbbb") + "\n198.18.16.3 " + issuer +
		"\n# torn\n192.0.2.3 " + issuer + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := findAddresses(file, issuer)
	want := []netip.Addr{netip.MustParseAddr("198.18.8.3"), netip.MustParseAddr("198.18.16.3")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
