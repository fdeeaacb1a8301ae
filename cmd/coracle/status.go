package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/process"
)

func statusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show clusters, processes, memory, ports and disk at a glance",
		Long: "Show clusters, processes, memory, ports and disk at a glance. " +
			"The exit status is 3 when the daemon is not running.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: the only other format is json", output)
			}
			status, err := admin.NewClient(dir.Socket()).Status(cmd.Context())
			if errors.Is(err, admin.ErrNotRunning) {
				left, problems, err := findProcesses(dir)
				if err != nil {
					return err
				}
				if output == "json" {
					err = json.NewEncoder(cmd.OutOrStdout()).
						Encode(map[string]any{"running": false, "dataDir": string(dir), "processes": left,
							"problems": problems})
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(),
						"daemon  not running; start it with: coracle up\ndata    %s\n", dir)
					for _, name := range left {
						fmt.Fprintf(cmd.OutOrStdout(), "runs on %s\n", name)
					}
					for _, problem := range problems {
						fmt.Fprintf(cmd.OutOrStdout(), "! %s\n", problem)
					}
				}
				return errors.Join(err, exitCode(3))
			}
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(status)
			}
			return status.Print(cmd.OutOrStdout(), time.Now())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json")
	return cmd
}

// findProcesses returns the sorted names of the processes that the daemon of dir has started, which may outlive it.
// problems lists those that the next daemon will refuse to use.
func findProcesses(dir datadir.Dir) (names, problems []string, err error) {
	found, err := process.Claims(dir.Owner()) // the key may be lost
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		if f.Leader {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	id, err := processIdentity(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil, nil
	}
	if err != nil {
		return names, []string{err.Error()}, nil
	}
	verified, err := process.Find(id)
	for _, ambiguous := range process.Ambiguous(verified) {
		problems = append(problems, ambiguous.Error())
	}
	return names, problems, err
}
