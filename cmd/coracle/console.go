package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

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
reaches the daemon. Otherwise the command ends when the link has been used.`,
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
			used := func(ctx context.Context) error {
				return admin.NewClient(dir.Socket()).AwaitConsoleLink(ctx, link)
			}
			if err := openBrowser(cmd.Context(), opener, link.URL, used); err != nil {
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

// openBrowser opens a page that leads on to a link, and removes it when used returns, which waits until the link has
// been used, or after a minute. All users of a host may read the arguments of programs, and the link is a secret.
func openBrowser(ctx context.Context, opener, link string, used func(context.Context) error) error {
	dir, page, err := writePage(os.Getenv("XDG_RUNTIME_DIR"), link)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	// A browser may run for as long as its user likes, beyond this command. What it prints is no output of this command.
	opened := exec.CommandContext(context.WithoutCancel(ctx), opener, (&url.URL{Scheme: "file", Path: page}).String())
	if err := opened.Start(); err != nil {
		return err
	}
	failed, done := make(chan error, 1), make(chan struct{})
	go func() {
		if err := opened.Wait(); err != nil {
			failed <- err
		}
	}()
	go func() {
		defer close(done)
		_ = used(ctx) // an error is that the daemon has ended, and the code with it
	}()
	select {
	case err = <-failed:
	case <-done:
	}
	cancel()
	<-done
	return err
}

// writePage writes a page that leads on to a link, for the user of this process alone: below runtime, or where that is
// not the user's own, as under su, in the directory of temporary files.
func writePage(runtime, link string) (dir, page string, err error) {
	if info, err := os.Lstat(runtime); err != nil || !isPrivate(info) {
		runtime = ""
	}
	if dir, err = os.MkdirTemp(runtime, "coracle-console-"); err != nil && runtime != "" {
		dir, err = os.MkdirTemp("", "coracle-console-")
	}
	if err != nil {
		return "", "", err
	}
	page = filepath.Join(dir, "console.html")
	to := html.EscapeString(link)
	text := `<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
		`<meta http-equiv="refresh" content="0; url=` + to + `"><title>Coracle</title><a href="` + to +
		`">Open the console</a>` + "\n"
	if err := writePrivate(dir, filepath.Base(page), text); err != nil {
		os.RemoveAll(dir)
		return "", "", err
	}
	return dir, page, nil
}

// writePrivate writes a new file in a directory, which somebody may have replaced since it was made: it is to be of the
// user of this process alone.
func writePrivate(dir, name, text string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Stat("."); err != nil {
		return err
	} else if !isPrivate(info) {
		return fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// isPrivate reports whether something is a directory of the user of this process, which no other may enter.
func isPrivate(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o077 == 0 && int(stat.Uid) == os.Geteuid()
}
