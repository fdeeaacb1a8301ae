package hostsfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/coracle-eks/coracle/internal/host/rundir"
)

// lockName is the lock that whoever changes the names of this host takes.
const lockName = "hosts.lock"

// domain is the suffix of the name of every endpoint, issuerPrefix the beginning of the name of every issuer. The names
// of load balancers have balancerLabel after or before the region.
const (
	domain        = ".eks.amazonaws.com"
	issuerPrefix  = "oidc.eks."
	balancerLabel = ".elb."
	amazonDomain  = ".amazonaws.com"
)

// isEntry reports whether a line is one that setEntries writes.
func isEntry(line string) bool {
	_, name, _ := strings.Cut(line, " ")
	return strings.HasSuffix(name, domain) || strings.HasPrefix(name, issuerPrefix) ||
		strings.Contains(name, balancerLabel) && strings.HasSuffix(name, amazonDomain)
}

func opening(owner string) string {
	return "# coracle " + owner + ": endpoints of clusters; \"coracle reset\" removes them"
}

func closing(owner string) string { return "# end of coracle " + owner }

func setEntries(ctx context.Context, file, owner string, entries []Entry) error {
	var block strings.Builder
	if len(entries) > 0 {
		block.WriteString(opening(owner) + "\n")
		for _, e := range entries {
			fmt.Fprintf(&block, "%s %s\n", e.Address, e.Name)
		}
		block.WriteString(closing(owner) + "\n")
	}
	_, err := replaceBlock(ctx, file, owner, block.String())
	return err
}

func removeBlock(ctx context.Context, file, owner string) (bool, error) {
	return replaceBlock(ctx, file, owner, "")
}

// replaceBlock puts the block in place of the owner's, or at the end, and says whether there was one. It writes nothing
// when it is there.
func replaceBlock(ctx context.Context, file, owner, block string) (had bool, err error) {
	// Most calls find everything as it should be, and need no lock to see it.
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && block == "" {
		return false, nil
	}
	if err == nil {
		if _, own, _ := splitBlock(string(text), owner); own == block {
			return own != "", nil
		}
	}
	unlock, err := rundir.Lock(ctx, lockName)
	if err != nil {
		return false, err
	}
	defer unlock()
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644) // open to others: everybody on this host resolves names
	if err != nil {
		return false, err
	}
	defer f.Close()
	old, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	before, own, after := splitBlock(string(old), owner)
	if own == "" && before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return own != "", rewrite(f, string(old), before+block+after)
}

// splitBlock finds the owner's block, whole or torn. Without one everything is before it.
func splitBlock(text, owner string) (before, own, after string) {
	start := -1
	if strings.HasPrefix(text, opening(owner)+"\n") {
		start = 0
	} else if i := strings.Index(text, "\n"+opening(owner)+"\n"); i >= 0 {
		start = i + 1
	}
	if start < 0 {
		return text, "", ""
	}
	end := start + len(opening(owner)) + 1
	for line := range strings.Lines(text[end:]) {
		bare := strings.TrimRight(line, "\n")
		if bare != closing(owner) && !isEntry(bare) {
			break // it was torn: what follows is somebody else's
		}
		end += len(line)
		if bare == closing(owner) {
			break
		}
	}
	return text[:start], text[start:end], text[end:]
}

// rewrite makes the file say text instead of old. What both begin with, which is what others wrote before our block, is
// not written again: a crash between the two instructions spoils what comes after it at most.
func rewrite(f *os.File, old, text string) error {
	if old == text {
		return nil
	}
	same := 0
	for same < len(old) && same < len(text) && old[same] == text[same] {
		same++
	}
	if _, err := f.WriteAt([]byte(text[same:]), int64(same)); err != nil {
		return err
	}
	return f.Truncate(int64(len(text)))
}

// findAddresses returns the addresses of a name in the blocks of all owners.
func findAddresses(file, name string) (all []netip.Addr, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "# coracle "):
			inside = true
		case !isEntry(line):
			inside = false // the end, or somebody else's after a torn block
		case inside:
			address, of, _ := strings.Cut(line, " ")
			if a, err := netip.ParseAddr(address); err == nil && of == name {
				all = append(all, a)
			}
		}
	}
	return all, nil
}
