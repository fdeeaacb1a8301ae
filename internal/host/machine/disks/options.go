//go:build linux

package disks

import (
	"fmt"
	"slices"
	"strings"
)

// option is one of a file system.
type option struct{ Key, Value string }

// Options of both file systems, and of each: those that concern the file system alone. Others name files and devices of
// the host (journal_path, journal_dev, logdev, rtdev), or make it panic.
var (
	ofBoth = []string{"discard", "nodiscard", "grpid", "bsdgroups", "nogrpid", "sysvgroups", "norecovery", "usrquota",
		"grpquota", "prjquota", "noquota"}
	ofType = map[string][]string{
		"ext4": {"acl", "noacl", "user_xattr", "nouser_xattr", "barrier", "nobarrier", "commit", "data", "errors",
			"delalloc", "nodelalloc", "noload", "init_itable", "noinit_itable", "block_validity", "noblock_validity",
			"journal_checksum", "nojournal_checksum", "auto_da_alloc", "noauto_da_alloc", "stripe", "nombcache",
			"max_batch_time", "min_batch_time", "dioread_lock", "dioread_nolock", "quota", "orlov", "minixdf", "bsddf",
			"prefetch_block_bitmaps", "no_prefetch_block_bitmaps"},
		"xfs": {"nouuid", "logbufs", "logbsize", "allocsize", "largeio", "nolargeio", "inode32", "inode64", "ikeep",
			"noikeep", "attr2", "noattr2", "swalloc", "noalign", "sunit", "swidth", "wsync", "quota", "uquota", "gquota",
			"pquota", "uqnoenforce", "gqnoenforce", "pqnoenforce", "qnoenforce", "filestreams"},
	}
)

// filterOptions returns the options of a mount, as mount(2) has them, or an error that names one which is not served.
func filterOptions(kind, text string) (options []option, err error) {
	for word := range strings.SplitSeq(text, ",") {
		if word == "" || word == "idmapped" { // remounting begins with what the kernel shows, which it does not take
			continue
		}
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(ofBoth, key) && !slices.Contains(ofType[kind], key) {
			return nil, fmt.Errorf("%q %w", word, errOption)
		}
		if key == "errors" && value != "remount-ro" && value != "continue" {
			return nil, fmt.Errorf("%q %w", word, errOption) // a panic would be the host's
		}
		options = append(options, option{key, value})
	}
	has := func(key string) bool {
		return slices.ContainsFunc(options, func(o option) bool { return o.Key == key })
	}
	switch {
	case kind == "ext4" && !has("errors"): // the file system itself may ask for a panic
		options = append(options, option{"errors", "remount-ro"})
	case kind == "xfs" && !has("nouuid"): // the copies of other machines are not seen by this one
		options = append(options, option{"nouuid", ""})
	}
	return options, nil
}
