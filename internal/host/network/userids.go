//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/rundir"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
)

// userIDFile returns the path of the file with the range of the host's user and group IDs of a holder: the first of
// them. The file lives as long as the holder's namespace, which belongs to the user namespace with that range.
func userIDFile(owner, holder string) string {
	return filepath.Join(runDirectory(owner), "userids", holder)
}

// UserID returns the first of the 65536 user and group IDs of the host that an instance's machine has, those of the
// user namespace that owns its network namespace; 0 when that is the host's own.
func (n *Network) UserID(instanceID string) (uint32, error) {
	return readUserID(userIDFile(n.o.Owner, instanceID))
}

func readUserID(file string) (uint32, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return uint32(id), nil
}

// claimUserID gives a holder a range that nobody has, in any data directory of this host, or the one that it has.
func claimUserID(ctx context.Context, owner, holder string) (uint32, error) {
	own := userIDFile(owner, holder)
	if id, err := readUserID(own); err != nil || id != 0 {
		return id, err
	}
	unlock, err := rundir.Lock(ctx, "userids.lock")
	if err != nil {
		return 0, err
	}
	defer unlock()
	if _, err := rundir.Create(owner, "userids"); err != nil {
		return 0, err
	}
	files, err := filepath.Glob(userIDFile("*", "*"))
	if err != nil {
		return 0, err
	}
	used, err := delegated("/etc/subuid", "/etc/subgid")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		id, err := readUserID(file)
		if err != nil {
			return 0, err
		}
		used[id] = true
	}
	const ranges = (usernamespace.Last - usernamespace.First + 1) / usernamespace.Size
	first := rand.Uint32N(ranges) // so that a range is seldom somebody's again at once
	for i := range ranges {
		id := usernamespace.First + (first+i)%ranges*usernamespace.Size
		if !used[id] {
			next := filepath.Join(runDirectory(owner), ".userid-"+holder)
			if err := os.WriteFile(next, []byte(strconv.FormatUint(uint64(id), 10)+"\n"), 0o600); err != nil {
				return 0, err
			}
			return id, os.Rename(next, own)
		}
	}
	return 0,
		fmt.Errorf(
			"all %d ranges of user IDs of this host are in use: terminate instances, or `coracle reset` a data "+
				"directory", ranges)
}

// delegated returns the ranges of which users of the host have IDs. https://man7.org/linux/man-pages/man5/subuid.5.html
func delegated(files ...string) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) != 3 {
				continue
			}
			first, err1 := strconv.ParseUint(fields[1], 10, 32)
			count, err2 := strconv.ParseUint(fields[2], 10, 32)
			if err1 != nil || err2 != nil {
				continue
			}
			for id := usernamespace.First; id < usernamespace.Last; id += usernamespace.Size {
				if uint64(id) < first+count && first < uint64(id)+uint64(usernamespace.Size) {
					used[id] = true
				}
			}
		}
	}
	return used, nil
}

// makeHolder makes the namespace of a holder, with a user namespace of its own if it is to have one, unless there is
// one.
func makeHolder(ctx context.Context, owner, holder string, userNamespace bool) error {
	path := NamespacePath(owner, holder)
	if there, err := isNamespace(path); there || err != nil {
		return err
	}
	if !userNamespace {
		if err := removeHolder(owner, holder); err != nil { // it may have had a range
			return err
		}
		_, err := makeNamespace(path)
		return err
	}
	id, err := claimUserID(ctx, owner, holder)
	if err != nil {
		return fmt.Errorf("choose user IDs for %s: %w", holder, err)
	}
	if err := makeMountPoint(path); err != nil {
		return err
	}
	err = usernamespace.Create(id, unix.CLONE_NEWNET, func(pid int) error {
		return unix.Mount(fmt.Sprintf("/proc/%d/ns/net", pid), path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", path, err)
	}
	return nil
}

// removeHolder removes the namespace of a holder, and gives back the user IDs that it had.
func removeHolder(owner, holder string) error {
	if err := removeNamespace(NamespacePath(owner, holder)); err != nil {
		return err
	}
	if err := os.Remove(userIDFile(owner, holder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give back the user IDs of %s: %w", holder, err)
	}
	return nil
}
