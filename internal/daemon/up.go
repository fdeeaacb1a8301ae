package daemon

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

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/environment"
)

const (
	// upTime is how long "coracle up" waits for a daemon that is alive but not healthy.
	upTime = 90 * time.Second
	// serveLogLimit is the size at which a daemon's log is put aside when the next one starts.
	serveLogLimit = 10 << 20
)

// Up starts "coracle serve" with args in the background, unless a daemon runs already, and waits
// until it is healthy. started is false when one ran already.
func Up(ctx context.Context, dir datadir.Dir, args []string, progress func(string)) (started bool, err error) {
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
		cmd, at, err := launch(dir, args)
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
	for waited := time.Now(); ; {
		url, problem := healthy(ctx, dir)
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
			return false, fmt.Errorf("the daemon ended (%v) and said:\n%s", err, tail(dir.ServeLog(), offset))
		case <-ctx.Done():
			return false, fmt.Errorf("the daemon is not healthy after %s: %w; its log is %s", time.Since(waited).Round(time.Second), problem, dir.ServeLog())
		case <-poll.C:
		}
		if time.Since(waited) > 5*time.Second {
			progress(fmt.Sprintf("still waiting: %v", problem))
			waited = time.Now()
		}
	}
}

// launch starts the daemon in a session of its own. offset is where its log begins.
func launch(dir datadir.Dir, args []string) (cmd *exec.Cmd, offset int64, err error) {
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

// healthy asks the daemon of dir, and returns its endpoint.
func healthy(ctx context.Context, dir datadir.Dir) (url string, err error) {
	s, err := dir.ReadSettings()
	if err != nil {
		return "", err
	}
	// The socket belongs to this daemon; another program may listen on the port.
	if err := admin.NewClient(dir.Socket()).Ping(ctx); err != nil {
		return "", err
	}
	url = EndpointURL(s.Listen)
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

func tail(file string, offset int64) string {
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

// Down ends the daemon of dir and waits until it is gone. It returns the number of processes
// that keep running, and admin.ErrNotRunning when there is no daemon.
func Down(ctx context.Context, dir datadir.Dir) (running int, err error) {
	count := func() (int, error) {
		left, _, err := Left(dir)
		return len(left), err
	}
	pid, held, err := dir.Holder()
	if err != nil {
		return 0, err
	}
	if !held {
		running, err := count()
		return running, errors.Join(err, admin.ErrNotRunning)
	}
	stopping := admin.NewClient(dir.Socket()).Stop(ctx)
	if stopping != nil && pid != 0 {
		// It does not take commands (yet, or any more): ask it as the system does.
		stopping = syscall.Kill(pid, syscall.SIGTERM)
	}
	if stopping != nil {
		return 0, fmt.Errorf("stop the daemon (process %d): %w", pid, stopping)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		_, held, err := dir.Holder()
		if err != nil {
			return 0, err
		}
		if !held {
			return count()
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the daemon (process %d) was told to stop and still runs: kill -9 %d ends it; clusters keep running", pid, pid)
		case <-poll.C:
		}
	}
}
