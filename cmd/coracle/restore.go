package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/process"
)

func restoreCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: "Make a data directory from a backup. The directory must be empty or absent, unless --replace is given. " +
			"FILE may be - for standard input.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			return restoreFrom(in, dir, replace, progressPrinter(cmd.OutOrStdout()))
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "put what is in the data directory aside and end its processes")
	return cmd
}

// restoreFrom creates dir from a backup. With replace, it ends the processes of dir and puts its files aside.
func restoreFrom(r io.Reader, dir datadir.Dir, replace bool, progress func(string)) error {
	if pid, held, err := dir.Holder(); err != nil {
		return err
	} else if held {
		return fmt.Errorf("the daemon of %s is running (process %d): end it with \"coracle down%s\" before you restore",
			dir, pid, dataDirFlag(dir))
	}
	left, _, err := findProcesses(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !replace && (len(left) > 0 || len(entries) > 0) {
		return fmt.Errorf(
			"%s is not empty (%d files and directories, %d running processes): restore into another --data-dir, "+
				"remove it with \"coracle reset%s\", or put it aside with --replace",
			dir,
			len(entries),
			len(left),
			dataDirFlag(dir),
		)
	}
	if !replace {
		m, err := backup.Restore(r, dir)
		return restored(m, dir, progress, err)
	}
	// Restore beside it first: a bad backup must not cost what is there.
	fresh, err := datadir.At(string(dir) + ".restored")
	if err != nil {
		return err
	}
	m, err := backup.Restore(r, fresh)
	if err != nil {
		return err
	}
	defer os.RemoveAll(string(fresh))
	if len(left) > 0 {
		progress(fmt.Sprintf("ending %d processes", len(left)))
		if _, err := process.Kill(dir.Owner()); err != nil {
			return err
		}
	}
	if len(entries) > 0 {
		aside := fmt.Sprintf("%s.before-%s", dir, time.Now().UTC().Format("20060102T150405Z"))
		if err := os.Rename(string(dir), aside); err != nil {
			return fmt.Errorf("put %s aside: %w", dir, err)
		}
		progress("what was there is now in " + aside)
	}
	err = os.Rename(string(fresh), string(dir))
	return restored(m, dir, progress, err)
}

// restored reports what was restored, unless err says that it was not.
func restored(m backup.Manifest, dir datadir.Dir, progress func(string), err error) error {
	if err != nil {
		return err
	}
	progress(
		fmt.Sprintf(
			"restored %s from the backup of %s that was taken at %s. \"coracle up%s\" starts its clusters again.",
			dir, m.DataDir, m.Taken.Format(time.RFC3339), dataDirFlag(dir),
		),
	)
	if n := len(m.Volumes); n > 0 {
		progress(fmt.Sprintf("It has the content of %d volumes and snapshots.", n))
	}
	for _, id := range slices.Sorted(maps.Keys(m.Missing)) {
		progress(fmt.Sprintf("It lacks the content of %s: %s", id, m.Missing[id]))
	}
	return nil
}
