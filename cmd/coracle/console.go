package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
)

func consoleCommand() *cobra.Command {
	var account string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Open the console in a browser, signed in",
		Long: `Open the console in a browser, signed in as the root user of the account for 12 hours.

The link is good once, within a minute. Where there is no browser, the command prints it: open it in any browser that
reaches the daemon.`,
		Example: `  coracle console
  coracle console --no-browser --account 444455556666`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			link, err := admin.NewClient(dir.Socket()).ConsoleLink(cmd.Context(), account)
			if errors.Is(err, admin.ErrNotRunning) {
				return notRunning(dir)
			} else if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), link.URL)
			opener := browser(os.Getenv)
			if noBrowser || opener == "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "open this link within a minute; it signs in once")
				return nil
			}
			// What it prints is no output of this command.
			if err := exec.CommandContext(cmd.Context(), opener, link.URL).Run(); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s opens no browser (%v): open this link within a minute\n", opener, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "`number` of the account to sign in to (default the first)")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the link and open nothing")
	return cmd
}

// browser returns the program that opens a link in the browser of the user; empty where nobody sits in front of a
// screen, or somebody else than the user of this process does, as under sudo.
func browser(getenv func(string) string) string {
	name := "xdg-open"
	switch {
	case getenv("SUDO_USER") != "":
		return ""
	case runtime.GOOS == "darwin":
		name = "open"
	case getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "":
		return ""
	}
	if _, err := exec.LookPath(name); err != nil {
		return ""
	}
	return name
}
