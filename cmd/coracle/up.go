package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/doctor"
	"github.com/coracle-eks/coracle/internal/environment"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

func upCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the daemon in the background and wait until it is healthy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			if _, err := f.parseLogLevel(); err != nil {
				return err
			}
			started, err := startDaemon(cmd.Context(), dir, f.givenArgs(cmd.Flags()),
				progressPrinter(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if !started && len(f.givenArgs(cmd.Flags())) > 0 {
				return errors.New(
					"the daemon was running before, so the given flags have no effect: \"coracle down\" first")
			}
			for _, l := range doctor.Limitations(cmd.Context(), describeHost(dir, f.listen, f.bundles)) {
				fmt.Fprintf(cmd.ErrOrStderr(), "! %s: %s\n  fix: %s\n", l.Check, l.Text, l.Fix)
			}
			return printNext(cmd.OutOrStdout(), dir, f.bundles, programName())
		},
	}
	f.addFlags(cmd.Flags())
	return cmd
}

// programName returns the name by which the user called this program.
func programName() string { return os.Args[0] }

const (
	// upTime is the time that "coracle up" waits for a daemon that is alive but not healthy.
	upTime = 90 * time.Second
	// serveLogLimit is the size at which a daemon's log is put aside when the next one starts.
	serveLogLimit = 10 << 20
)

// startDaemon starts "coracle serve" with args in the background, unless a daemon runs already, and waits
// until it is healthy. started is false when one ran already.
func startDaemon(ctx context.Context, dir datadir.Dir, args []string, progress func(string)) (started bool, err error) {
	if err := dir.Create(); err != nil {
		return false, err
	}
	pid, held, err := dir.Holder()
	if err != nil {
		return false, err
	}
	var exited chan error
	offset := int64(0)
	if held {
		progress(fmt.Sprintf("a daemon runs already (process %d)", pid))
	} else {
		progress("starting the daemon")
		cmd, at, err := launchDaemon(dir, args)
		if err != nil {
			return false, err
		}
		offset = at
		exited = make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
	}

	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	poll := time.NewTicker(25 * time.Millisecond)
	defer poll.Stop()
	began := time.Now()
	for said := began; ; {
		url, problem := checkHealth(ctx, dir)
		if problem == nil {
			progress("healthy at " + url)
			return !held, nil
		}
		select {
		case err := <-exited:
			// Another "up" may have been faster; its daemon is as good.
			if _, nowHeld, holderErr := dir.Holder(); holderErr == nil && nowHeld {
				exited = nil
				continue
			}
			return false, fmt.Errorf("the daemon ended (%s) and said:\n%s", fmt.Sprint(err), readTail(dir.ServeLog(), offset))
		case <-ctx.Done():
			return false, fmt.Errorf(
				"the daemon is not healthy after %s: %w; its log is %s",
				time.Since(began).Round(time.Second), problem, dir.ServeLog(),
			)
		case <-poll.C:
		}
		if time.Since(said) > 5*time.Second {
			progress(fmt.Sprintf("still waiting: %v", problem))
			said = time.Now()
		}
	}
}

// launchDaemon starts the daemon in a session of its own. offset is where its log begins.
func launchDaemon(dir datadir.Dir, args []string) (cmd *exec.Cmd, offset int64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	if info, err := os.Stat(dir.ServeLog()); err == nil && info.Size() > serveLogLimit {
		if err := os.Rename(dir.ServeLog(), dir.ServeLog()+".1"); err != nil {
			return nil, 0, err
		}
	}
	log, err := os.OpenFile(dir.ServeLog(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	if offset, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, 0, err
	}
	cmd = exec.Command(self, append([]string{"serve", "--data-dir", string(dir)}, args...)...)
	cmd.Dir = string(dir) // do not hold on to the directory in which the user happened to be
	cmd.Env = environment.ForDaemon()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, offset, cmd.Start()
}

// checkHealth asks the daemon of dir whether it serves, and returns its endpoint.
func checkHealth(ctx context.Context, dir datadir.Dir) (url string, err error) {
	s, err := dir.ReadSettings()
	if err != nil {
		return "", err
	}
	// The socket belongs to this daemon; another program may listen on the port.
	if err := admin.NewClient(dir.Socket()).Ping(ctx); err != nil {
		return "", err
	}
	url = daemon.EndpointURL(s.Listen)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s/healthz: %s", url, resp.Status)
	}
	return url, nil
}

// readTail returns the last lines of a file that come after offset.
func readTail(file string, offset int64) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, offset, serveLogLimit))
	if err != nil {
		return err.Error()
	}
	const most = 20
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// printNext prints what to do once the daemon is up.
func printNext(w io.Writer, dir datadir.Dir, bundles, program string) error {
	s, err := dir.ReadSettings()
	if err != nil {
		return err
	}
	flag := dataDirFlag(dir)
	var b strings.Builder
	fmt.Fprintf(&b, `
Coracle serves AWS at %s (account %s, %s).

  eval "$(%s env%s)"
  aws sts get-caller-identity
  %s demo%s      # a guided tour: cluster, nodes, pods, access, upgrade
  %s status%s    # what runs
`, daemon.AdvertisedURL(s), s.Account, s.Region, program, flag, program, flag, program, flag)
	finder := upstream.OpenBundles(upstream.Options{Dir: bundles, DataDir: string(dir)})
	if _, err := finder.Find(kubernetes.Default); errors.Is(err, upstream.ErrNotBuilt) {
		fmt.Fprintf(
			&b,
			"\nKubernetes %s is not built yet. The first cluster builds it, in about four minutes; "+
				"to see it built now:\n  %s bundles %s%s\n",
			kubernetes.Default,
			program,
			kubernetes.Default,
			flag,
		)
	} else if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}
