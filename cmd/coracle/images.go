package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
)

func imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Put container images in the registry that machines pull from, and list them",
	}
	cmd.AddCommand(imagesLoadCommand(), imagesListCommand())
	return cmd
}

func imagesLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE",
		Short: "Put the images of an archive in the registry",
		Long: `Put the images of an archive in the registry, under the names that the archive gives them: pods then find
them, without a network. FILE is what "docker save" or "podman save" write, docker's or the OCI form, compressed or not;
- is the standard input:

  docker save nginx:1.27 | coracle images load -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			archive, size := cmd.InOrStdin(), int64(0)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				info, err := f.Stat()
				if err != nil {
					return err
				}
				if info.IsDir() {
					return fmt.Errorf("%s is a directory: give the archive that \"docker save\" writes", args[0])
				}
				archive, size = f, info.Size()
			}
			progress := &sending{Reader: archive, to: cmd.ErrOrStderr(), size: size,
				terminal: isatty.IsTerminal(os.Stderr.Fd())}
			loaded, err := admin.NewClient(dir.Socket()).LoadImages(cmd.Context(), progress)
			progress.finishProgress()
			if errors.Is(err, admin.ErrNotRunning) {
				return fmt.Errorf("no daemon is running on %s: start it with \"coracle up\"", dir)
			}
			if err != nil {
				return fmt.Errorf("load %s: %w", args[0], err)
			}
			for _, reference := range loaded.References {
				fmt.Fprintln(cmd.OutOrStdout(), reference)
			}
			return nil
		},
	}
}

// sending shows how much of an archive has been sent: in a terminal as a bar, elsewhere as a line for every tenth.
type sending struct {
	io.Reader
	to         io.Writer
	sent, size int64 // size is 0 when it is not known
	terminal   bool
	shown      int64 // percent, or megabytes
}

func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.sent += int64(n)
	s.printProgress()
	return n, err
}

func (s *sending) printProgress() {
	const width = 30
	switch {
	case s.size == 0:
		if now := s.sent >> 20 / 100; now > s.shown {
			s.shown = now
			fmt.Fprintf(s.to, "sent %s\n", humanize.IBytes(uint64(s.sent)))
		}
	case s.terminal:
		if now := s.sent * 100 / s.size; now > s.shown {
			s.shown = now
			filled := int(now) * width / 100
			fmt.Fprintf(s.to, "\r\033[K[%s%s] %3d%%  of %s", strings.Repeat("#", filled),
				strings.Repeat(".", width-filled), now, humanize.IBytes(uint64(s.size)))
		}
	default:
		if now := s.sent * 10 / s.size * 10; now > s.shown {
			s.shown = now
			fmt.Fprintf(s.to, "%3d%%  of %s\n", now, humanize.IBytes(uint64(s.size)))
		}
	}
}

func (s *sending) finishProgress() {
	if s.terminal && s.shown > 0 && s.size > 0 {
		fmt.Fprintln(s.to)
	}
}

func imagesListCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the images in the registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: the only other format is json", output)
			}
			all, err := admin.NewClient(dir.Socket()).Images(cmd.Context())
			if errors.Is(err, admin.ErrNotRunning) {
				return fmt.Errorf("no daemon is running on %s: start it with \"coracle up\"", dir)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "REPOSITORY\tTAG\tDIGEST\tSIZE\tSINCE")
			for _, i := range all {
				for _, tag := range i.Tags {
					fmt.Fprintf(t, "%s\t%s\t%.19s\t%s\t%s\n", i.Repository, tag, i.Digest,
						humanize.IBytes(uint64(i.Size)), humanize.Time(i.Pushed))
				}
			}
			return t.Flush()
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json (with images that have no tag)")
	return cmd
}
