package cloudinit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// Files that users of cloud-init know.
const (
	outputLog  = "/var/log/cloud-init-output.log"
	debugLog   = "/var/log/cloud-init.log"
	cloudDir   = "/var/lib/cloud"
	ResultFile = "/run/cloud-init/result.json"
	statusFile = "/run/cloud-init/status.json"
)

// version is the cloud-init whose behavior this is.
const version = "22.2.2"

// Stage runs one stage of cloud-init.
type Stage struct {
	IMDS *imds.Client
	// Root is the root of the file system; empty means /. Tests have another.
	Root string
	// Console receives the output, which also goes to the log.
	Console io.Writer
	// Errors are the errors, as result.json has them.
	Errors []string

	out io.Writer
	now func() time.Time
}

func (s *Stage) rootPath(p string) string { return filepath.Join("/", s.Root, p) }

// Main runs the program "cloud-init"; the units call "cloud-init local|init|final", users "cloud-init status [--wait]
// [--long]".
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: cloud-init status|init|modules|query ...")
		return 2
	}
	ctx := context.Background()
	s := &Stage{IMDS: &imds.Client{}, Console: stdout}
	var err error
	switch args[0] {
	case "local":
		err = s.Local(ctx)
	case "init":
		err = s.Init(ctx)
	case "final":
		err = s.Final(ctx)
	case "status":
		return s.printStatus(ctx, args[1:], stdout)
	case "--version", "-v":
		fmt.Fprintln(stdout, "/usr/bin/cloud-init "+version)
		return 0
	case "query":
		if len(args) == 2 && args[1] == "userdata" {
			data, err := os.ReadFile(s.rootPath(cloudDir + "/instance/user-data.txt"))
			if err != nil {
				fmt.Fprintln(stderr, err)
				return 1
			}
			_, _ = stdout.Write(data)
			return 0
		}
		fallthrough
	default:
		fmt.Fprintf(stderr, "cloud-init: %s is not served on this machine; there are: status, query userdata\n",
			strings.Join(args, " "))
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "cloud-init:", err)
		return 1
	}
	return 0
}

// openLog begins to write to the log as well; every stage says its name first.
func (s *Stage) openLog(stage string) (func(), error) {
	if s.now == nil {
		s.now = time.Now
	}
	if s.Console == nil {
		s.Console = io.Discard
	}
	if err := os.MkdirAll(s.rootPath("/var/log"), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.rootPath(outputLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	s.out = io.MultiWriter(f, s.Console)
	fmt.Fprintf(s.out, "Cloud-init v. %s running '%s' at %s. Up %.2f seconds.\n", version, stage,
		s.now().UTC().Format(time.RFC1123Z), readUptime())
	return func() { f.Close() }, nil
}

func readUptime() float64 {
	var seconds float64
	data, _ := os.ReadFile("/proc/uptime")
	_, _ = fmt.Sscan(string(data), &seconds)
	return seconds
}

// recordWarning logs a deviation from the user's configuration; a fatal one fails the boot.
func (s *Stage) recordWarning(fatal bool, module, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	line := fmt.Sprintf("%s - %s[WARNING]: %s", s.now().UTC().Format("2006-01-02 15:04:05,000"), module, text)
	fmt.Fprintln(s.out, line)
	if f, err := os.OpenFile(s.rootPath(debugLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640); err == nil {
		fmt.Fprintln(f, line)
		f.Close()
	}
	if fatal {
		s.Errors = append(s.Errors, fmt.Sprintf("%s: %s", module, text))
	}
}

// Init reads the user data and applies what is to be there before scripts run. What is done once is done once per
// instance, however often it boots; boothooks and bootcmd run at every boot.
func (s *Stage) Init(ctx context.Context) error {
	closeLog, err := s.openLog("init")
	if err != nil {
		return err
	}
	defer closeLog()
	if err := s.setHostname(ctx, ""); err != nil {
		s.recordWarning(false, "cc_set_hostname", "%v", err)
	}
	id, err := s.IMDS.Meta(ctx, "instance-id")
	if errors.Is(err, imds.ErrDisabled) {
		s.recordWarning(false, "DataSourceEc2", "%v: user data cannot be read and is not run", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find out which instance this is: %w", err)
	}
	data, err := s.IMDS.Get(ctx, "latest/user-data")
	if err != nil && !errors.Is(err, imds.ErrNotFound) {
		return fmt.Errorf("read the user data: %w", err)
	}
	instance := cloudDir + "/instances/" + id
	fresh := !fileExists(s.rootPath(instance + "/sem/config_init"))
	for _, dir := range []string{instance + "/scripts", instance + "/sem", instance + "/boothooks", "/run/cloud-init"} {
		if err := os.MkdirAll(s.rootPath(dir), 0o755); err != nil {
			return err
		}
	}
	_ = os.Remove(s.rootPath(cloudDir + "/instance"))
	if err := os.Symlink("instances/"+id, s.rootPath(cloudDir+"/instance")); err != nil {
		return err
	}
	if err := os.WriteFile(s.rootPath(instance+"/user-data.txt"), data, 0o600); err != nil {
		return err
	}
	if fresh {
		s.authorizedKeys(ctx, "ec2-user", nil)
	}
	parts, err := Parse(data)
	if err != nil {
		s.recordWarning(true, "user_data.py", "%v", err)
	}
	configs := s.sortParts(parts, instance)
	merged, err := mergeConfigs(configs)
	if err != nil {
		s.recordWarning(true, "util.py", "%v", err)
	}
	s.boothooks(parts, instance)
	s.bootcmd(merged)
	if fresh {
		s.applyOnce(ctx, merged, instance)
		if err := os.WriteFile(s.rootPath(instance+"/sem/config_init"), nil, 0o644); err != nil {
			return err
		}
	}
	return s.saveErrors()
}

// sortParts writes the scripts where Final finds them and returns the cloud-config documents.
func (s *Stage) sortParts(parts []Part, instance string) (configs [][]byte) {
	for i, p := range parts {
		content := p.Content
		switch p.Type {
		case ShellScript:
			name := fmt.Sprintf("part-%03d", i+1)
			if err := os.WriteFile(s.rootPath(instance+"/scripts/"+name), content, 0o700); err != nil {
				s.recordWarning(true, "shell_script.py", "%v", err)
			}
		case CloudConfig:
			configs = append(configs, content)
		case Boothook, NodeConfig:
		case "text/x-include-url", "text/x-include-once-url":
			s.recordWarning(true, "user_data.py",
				"#include is refused: a machine's user data is all of its user data; put the content of the included "+
					"URLs (%s) into a MIME part", firstWords(content))
		default:
			preview := firstWords(content)
			s.recordWarning(p.Type == "text/jinja2" || p.Type == "text/part-handler", "__init__.py",
				"Unhandled non-multipart (%s) userdata: '%s...'", kindOrDefault(p.Type), preview)
		}
	}
	return configs
}

func kindOrDefault(kind string) string {
	if kind == "" {
		return "text/x-not-multipart"
	}
	return kind
}

func firstWords(content []byte) string {
	text := strings.Join(strings.Fields(string(content)), " ")
	return text[:min(len(text), 64)]
}

func (s *Stage) boothooks(parts []Part, instance string) {
	for i, p := range parts {
		if p.Type != Boothook {
			continue
		}
		content := p.Content
		if first, rest, _ := bytes.Cut(content, []byte("\n")); bytes.HasPrefix(first, []byte("#cloud-boothook")) {
			content = rest
		}
		if !bytes.HasPrefix(content, []byte("#!")) {
			content = append([]byte("#!/bin/sh\n"), content...)
		}
		name := instance + fmt.Sprintf("/boothooks/part-%03d", i+1)
		if err := os.WriteFile(s.rootPath(name), content, 0o700); err != nil {
			s.recordWarning(true, "boot_hook.py", "%v", err)
			continue
		}
		if err := s.runScript(name); err != nil {
			s.recordWarning(true, "boot_hook.py", "Boothooks script %s execution error: %v", name, err)
		}
	}
}

func (s *Stage) bootcmd(c config) {
	if len(c.Bootcmd) == 0 {
		return
	}
	name := cloudDir + "/instance/boothooks/bootcmd"
	if err := os.WriteFile(s.rootPath(name), shellScript(c.Bootcmd), 0o700); err != nil {
		s.recordWarning(true, "cc_bootcmd.py", "%v", err)
		return
	}
	if err := s.runScript(name); err != nil {
		s.recordWarning(true, "cc_bootcmd.py", "Failed to run bootcmd module bootcmd: %v", err)
	}
}

func shellScript(commands []command) []byte {
	var b bytes.Buffer
	b.WriteString("#!/bin/sh\n")
	for _, c := range commands {
		b.WriteString(c.shellLine() + "\n")
	}
	return b.Bytes()
}

// applyOnce applies what is applied once per instance.
func (s *Stage) applyOnce(ctx context.Context, c config, instance string) {
	name := c.FQDN
	if name == "" {
		name = c.Hostname
	}
	if name != "" {
		if err := s.setHostname(ctx, name); err != nil {
			s.recordWarning(true, "cc_set_hostname", "%v", err)
		}
	}
	for _, f := range c.WriteFiles {
		if err := f.writeFile("/" + s.Root); err != nil {
			s.recordWarning(true, "cc_write_files", "%v", err)
		}
	}
	s.createUsers(ctx, c)
	if len(c.Runcmd) > 0 {
		if err := os.WriteFile(s.rootPath(instance+"/scripts/runcmd"), shellScript(c.Runcmd), 0o700); err != nil {
			s.recordWarning(true, "cc_runcmd", "%v", err)
		}
	}
	for _, key := range c.others {
		switch key {
		case "packages", "package_update", "package_upgrade", "package_reboot_if_required", "yum_repos", "apt":
			s.recordWarning(false, "cc_package_update_upgrade_install",
				"%s: nothing is installed: an instance has the programs of the node image; run what it lacks in a "+
					"container", key)
		default:
			s.recordWarning(false, "stages.py", "cloud-config key %s is not applied on this machine", key)
		}
	}
}

// Final runs the scripts, once per instance, in the order of their names: parts first, then runcmd.
func (s *Stage) Final(ctx context.Context) error {
	closeLog, err := s.openLog("modules:final")
	if err != nil {
		return err
	}
	defer closeLog()
	s.Errors = append(s.Errors, s.savedErrors()...)
	instance := cloudDir + "/instance"
	done := s.rootPath(instance + "/sem/config_scripts_user")
	if fileExists(s.rootPath(instance)) && !fileExists(done) {
		// The mark comes first, as cloud-init's does: a script that takes the machine down is not run again.
		if err := os.WriteFile(done, []byte(fmt.Sprintf("%d: %s\n", os.Getpid(), s.now())), 0o644); err != nil {
			return err
		}
		entries, err := os.ReadDir(s.rootPath(instance + "/scripts"))
		if err != nil {
			return err
		}
		var failed []string
		for _, e := range entries {
			name := instance + "/scripts/" + e.Name()
			if err := s.runScript(name); err != nil {
				failed = append(failed, e.Name())
				s.recordWarning(true, "subp.py", "Failed running %s [%v]", name, err)
			}
		}
		if len(failed) > 0 {
			s.recordWarning(false, "cc_scripts_user.py", "Failed to run module scripts_user (scripts in %s/scripts)",
				instance)
			s.recordWarning(true, "util.py",
				"Running module scripts_user failed: Runparts: %d failures (%s) in %d attempted commands", len(failed),
				strings.Join(failed, ","), len(entries))
		}
	}
	fmt.Fprintf(s.out, "Cloud-init v. %s finished at %s. Datasource DataSourceEc2Local.  Up %.2f seconds\n", version,
		s.now().UTC().Format(time.RFC1123Z), readUptime())
	if err := s.writeResult(); err != nil {
		return err
	}
	if len(s.Errors) > 0 {
		return fmt.Errorf("user data failed: %s", s.Errors[0])
	}
	return nil
}

// runScript runs a script with its output to the log and the console.
func (s *Stage) runScript(name string) error {
	path := s.rootPath(name)
	cmd := exec.Command(path)
	cmd.Dir = "/"
	cmd.Env = os.Environ()
	if !slices.ContainsFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		// Scripts that name $HOME under "set -u" run on EC2 without it, but tools that they call want one.
		cmd.Env = append(cmd.Env, "HOME=/root")
	}
	// The pipe may be held by what the script leaves running; that is not waited for.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		r.Close()
		w.Close()
		var pathError *os.PathError
		if errors.As(err, &pathError) && fileExists(path) {
			first, _, _ := strings.Cut(readAll(path), "\n")
			return fmt.Errorf("%w: does its first line name a program that exists? %q", pathError.Err, first)
		}
		return err
	}
	w.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(s.out, r)
	}()
	err = cmd.Wait()
	// What the script itself wrote is in the pipe; a process that it leaves behind may keep that open.
	select {
	case <-copied:
	case <-time.After(200 * time.Millisecond):
		if err := r.SetReadDeadline(time.Now()); err == nil {
			<-copied
		}
	}
	r.Close()
	return err
}

func readAll(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// saveErrors leaves the errors of a stage for the next one.
func (s *Stage) saveErrors() error {
	data, err := json.Marshal(s.Errors)
	if err != nil {
		return err
	}
	return os.WriteFile(s.rootPath("/run/cloud-init/init-errors.json"), data, 0o600)
}

func (s *Stage) savedErrors() (errs []string) {
	_ = json.Unmarshal([]byte(readAll(s.rootPath("/run/cloud-init/init-errors.json"))), &errs)
	return errs
}

type result struct {
	V1 struct {
		Datasource string   `json:"datasource"`
		Errors     []string `json:"errors"`
	} `json:"v1"`
}

func (s *Stage) writeResult() error {
	var r result
	r.V1.Datasource, r.V1.Errors = "DataSourceEc2Local", s.Errors
	if r.V1.Errors == nil {
		r.V1.Errors = []string{}
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.rootPath("/run/cloud-init"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{cloudDir + "/instance/boot-finished", statusFile} {
		if fileExists(filepath.Dir(s.rootPath(name))) {
			_ = os.WriteFile(s.rootPath(name), data, 0o644)
		}
	}
	return os.WriteFile(s.rootPath(ResultFile), data, 0o644)
}

// printStatus runs "cloud-init status".
func (s *Stage) printStatus(ctx context.Context, args []string, stdout io.Writer) int {
	wait, long := slices.Contains(args, "--wait") || slices.Contains(args, "-w"), slices.Contains(args, "--long") ||
		slices.Contains(args, "-l")
	for wait && !fileExists(s.rootPath(ResultFile)) {
		fmt.Fprint(stdout, ".")
		time.Sleep(250 * time.Millisecond)
		if ctx.Err() != nil {
			return 1
		}
	}
	var r result
	state, code := "running", 0
	if data, err := os.ReadFile(s.rootPath(ResultFile)); err == nil {
		if _ = json.Unmarshal(data, &r); len(r.V1.Errors) > 0 {
			state, code = "error", 1
		} else {
			state = "done"
		}
	}
	if wait {
		fmt.Fprintln(stdout)
	}
	fmt.Fprintln(stdout, "status:", state)
	if long {
		fmt.Fprintln(stdout, "detail:")
		for _, e := range r.V1.Errors {
			fmt.Fprintln(stdout, e)
		}
		if len(r.V1.Errors) == 0 {
			fmt.Fprintln(stdout, r.V1.Datasource)
		}
	}
	return code
}
