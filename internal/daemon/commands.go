package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/internal/version"
	"github.com/coracle-eks/coracle/kubernetes"
)

// Stop ends the daemon. What it runs goes on.
func (d *daemon) Stop() {
	d.log.Info("stopping, as \"coracle down\" demands")
	d.stop()
}

// CreateAccount makes an account, and keeps its root access key with the others.
func (d *daemon) CreateAccount(ctx context.Context, account string) (admin.Account, error) {
	if err := CheckAccount(account); err != nil {
		return admin.Account{}, &admin.Refused{Reason: err.Error()}
	}
	accounts, err := d.front.accounts(ctx)
	if err != nil {
		return admin.Account{}, err
	}
	if slices.Contains(accounts, account) {
		return admin.Account{}, &admin.Refused{Reason: "account " + account + " exists already; use it with: eval \"$(coracle env --account " + account + ")\""}
	}
	c, err := d.front.ensureAccount(ctx, account)
	return admin.Account{Account: account, AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey}, err
}

// Interrupt gives a spot instance notice that it is taken away.
func (d *daemon) Interrupt(ctx context.Context, instance string) (admin.Interruption, error) {
	at, err := ec2.NewAftermath(d.front.ec2).Interrupt(ctx, instance)
	var refused *wire.Error
	if errors.As(err, &refused) {
		return admin.Interruption{}, &admin.Refused{Reason: refused.Message}
	}
	return admin.Interruption{Instance: instance, At: at}, err
}

// Backup writes the archive of the data directory while everything goes on.
func (d *daemon) Backup(ctx context.Context, w io.Writer) error {
	return backup.Write(ctx, w, d.dir, backup.Manifest{
		Version: version.String(), Taken: time.Now().UTC(), DataDir: string(d.dir),
		Account: d.settings.Account, Region: d.settings.Region, External: d.embedded == nil,
	}, backup.Sources{Etcd: d.store.Backup, Events: d.logs.events.Checkpoint})
}

// CreateAccount has the daemon of dir make an account.
func CreateAccount(ctx context.Context, w io.Writer, dir datadir.Dir, account string) error {
	a, err := admin.NewClient(dir.Socket()).CreateAccount(ctx, account)
	if errors.Is(err, admin.ErrNotRunning) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Account %s is there. Use it with:\n  eval \"$(coracle env --account %s)\"\n", a.Account, a.Account)
	return err
}

// Interrupt has the daemon of dir give a spot instance notice that it is taken away.
func Interrupt(ctx context.Context, w io.Writer, dir datadir.Dir, instance string) error {
	i, err := admin.NewClient(dir.Socket()).Interrupt(ctx, instance)
	if errors.Is(err, admin.ErrNotRunning) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s has notice: it is terminated at %s.\n", i.Instance, i.At.Local().Format(time.TimeOnly))
	return err
}

func notRunning(dir datadir.Dir) error {
	return fmt.Errorf("the daemon of %s is not running: start it with \"coracle up%s\"", dir, dataDirFlag(dir))
}

// dataDirFlag is what to add to a suggested command, if anything.
func dataDirFlag(dir datadir.Dir) string {
	standard := datadir.Default()
	if chosen := os.Getenv("CORACLE_DATA_DIR"); chosen != "" {
		standard = chosen
	}
	if standard, err := datadir.At(standard); err == nil && standard == dir {
		return ""
	}
	return " --data-dir " + quote(string(dir))
}

// PrintEnv prints the exports for AWS clients. warn hears of what will not work.
func PrintEnv(w, warn io.Writer, dir datadir.Dir, account, region string) error {
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return notRunning(dir)
	}
	if err != nil {
		return err
	}
	all, err := dir.ReadCredentials()
	if err != nil {
		return err
	}
	if account == "" {
		account = s.Account
	}
	if region == "" {
		region = s.Region
	} else if err := checkRegion(region); err != nil {
		return fmt.Errorf("--region: %w", err)
	}
	c, ok := all[account]
	switch {
	case !ok && len(all) == 0:
		return notRunning(dir)
	case !ok:
		return fmt.Errorf("there is no account %s; there are %s: make it with \"coracle account create %s\"", account, strings.Join(slices.Sorted(maps.Keys(all)), ", "), account)
	}
	if _, held, err := dir.Holder(); err == nil && !held {
		fmt.Fprintf(warn, "coracle: %v\n", notRunning(dir))
	}
	for _, v := range [][2]string{
		{"AWS_ENDPOINT_URL", EndpointURL(s.Listen)},
		{"AWS_ACCESS_KEY_ID", c.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", c.SecretAccessKey},
		{"AWS_REGION", region},
		{"AWS_DEFAULT_REGION", region},
		// Some operations, such as StartLiveTail, belong to a host of their own, "stream-" before the endpoint's name, which has no address here. Those SDKs that
		// know this variable, Python's and so the aws command line, leave the name as it is.
		{"AWS_DISABLE_HOST_PREFIX_INJECTION", "true"},
	} {
		if _, err := fmt.Fprintf(w, "export %s=%s\n", v[0], quote(v[1])); err != nil {
			return err
		}
	}
	// What an earlier session left in the shell would be sent along and refused.
	_, err = fmt.Fprintln(w, "unset AWS_SESSION_TOKEN AWS_PROFILE")
	return err
}

// quote makes a word of a shell command.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PrintNext says what to do once the daemon is up.
func PrintNext(w io.Writer, dir datadir.Dir, bundles, program string) error {
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
`, EndpointURL(s.Listen), s.Account, s.Region, program, flag, program, flag, program, flag)
	finder := upstream.OpenBundles(upstream.Options{Dir: bundles, DataDir: string(dir)})
	if _, err := finder.Find(kubernetes.Default); errors.Is(err, upstream.ErrNotBuilt) {
		fmt.Fprintf(&b, "\nKubernetes %s is not built yet. The first cluster builds it, in about four minutes; to see it built now:\n  %s bundles %s%s\n",
			kubernetes.Default, program, kubernetes.Default, flag)
	} else if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// BackupTo writes a backup into a file, which appears complete or not at all, or to w for "-".
func BackupTo(ctx context.Context, w io.Writer, dir datadir.Dir, file string, progress func(string)) error {
	client := admin.NewClient(dir.Socket())
	take := func(w io.Writer) error {
		err := client.Backup(ctx, w)
		if errors.Is(err, admin.ErrNotRunning) {
			return notRunning(dir)
		}
		return err
	}
	if file == "-" {
		return take(w)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = take(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	info, err := os.Stat(f.Name())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	progress(fmt.Sprintf("wrote %s (%d KiB). It holds every secret of this coracle: keep it safe.", file, info.Size()>>10))
	return nil
}

// RestoreFrom makes dir from a backup. With replace, what is there now is put aside, and ended first.
func RestoreFrom(r io.Reader, dir datadir.Dir, replace bool, progress func(string)) error {
	if pid, held, err := dir.Holder(); err != nil {
		return err
	} else if held {
		return fmt.Errorf("the daemon of %s is running (process %d): end it with \"coracle down%s\" before you restore", dir, pid, dataDirFlag(dir))
	}
	left, _, err := Left(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(string(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !replace && (len(left) > 0 || len(entries) > 0) {
		return fmt.Errorf("%s is not empty (%d files and directories, %d running processes): restore into another --data-dir, remove it with \"coracle reset%s\", or put it aside with --replace", dir, len(entries), len(left), dataDirFlag(dir))
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
		if err := killAll(dir); err != nil {
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

func restored(m backup.Manifest, dir datadir.Dir, progress func(string), err error) error {
	if err != nil {
		return err
	}
	progress(fmt.Sprintf("restored %s from the backup of %s that was taken at %s. \"coracle up%s\" starts its clusters again.", dir, m.DataDir, m.Taken.Format(time.RFC3339), dataDirFlag(dir)))
	return nil
}
