package controlplane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// outage requests an object from the API server again and again, each time over a new connection, as
// kubectl does, and counts the requests that failed. How long a request takes is measured by
// BenchmarkUpgrade in test/bench: here it depends on what else the machine does.
type outage struct {
	stop   atomic.Bool
	done   sync.WaitGroup
	failed int
	asked  int
	errs   []string
}

func watchOutage(t *testing.T, client *http.Client, url string) *outage {
	t.Helper()
	o := &outage{}
	o.done.Go(func() {
		for !o.stop.Load() {
			asking, done := context.WithTimeout(context.Background(), eventually.Limit)
			_, err := getHealth(asking, client, url)
			done()
			o.asked++
			if err != nil {
				o.failed++
				o.errs = append(o.errs, err.Error())
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return o
}

// end waits for the last answer.
func (o *outage) end() {
	o.stop.Store(true)
	o.done.Wait()
}

// forgetful returns a client that makes a connection for each request.
func (d *daemon) forgetful(c record.Cluster) *http.Client {
	d.Helper()
	config, err := d.controller.Config(d.Context(), c, "prober", "system:masters")
	if err != nil {
		d.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		d.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
}

func TestUpgrade(t *testing.T) {
	needBundle(t, "1.35", "1.36")
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, nil)
	c := d.create(newCluster("rising", "1.35"))
	d.until("ready", func() bool { return d.plane(c).Ready })
	admin, host := d.client(c, "admin", "system:masters")
	post(t, admin, host+"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"kept"},"data":{"a":"b"}}`)

	out := watchOutage(t, d.forgetful(c), host+"/api/v1/namespaces/default/configmaps/kept")
	id := d.update(c, record.Update{Type: ekstypes.UpdateTypeVersionUpdate, PreviousVersion: "1.35"},
		func(c *record.Cluster) { c.Version = "1.36" })
	took := d.until("the upgrade", func() bool { return d.updated(c, id).Status != ekstypes.UpdateStatusInProgress })
	out.end()
	if u := d.updated(c, id); u.Status != ekstypes.UpdateStatusSuccessful {
		t.Fatalf("update %+v", u)
	}
	t.Logf("upgraded in %v; %d of %d requests failed", took, out.failed, out.asked)
	if out.failed > 0 {
		t.Errorf("%d of %d requests failed: %s", out.failed, out.asked, out.errs[0])
	}
	for i, e := range out.errs {
		if i < 5 {
			t.Log(e)
		}
	}
	if p := d.plane(c); p.Version != "1.36" || !strings.HasPrefix(p.FullVersion, "v1.36.") {
		t.Errorf("observed %+v", p)
	}
	if _, err := getHealth(t.Context(), admin, host+"/api/v1/namespaces/default/configmaps/kept"); err != nil {
		t.Error(err)
	}
	for _, s := range d.processes.List(c.ID + "/") {
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(s.PID), "exe"))
		if err != nil || !strings.Contains(exe, "v1.36") {
			t.Errorf("%s runs %s (%v)", s.Name, exe, err)
		}
	}
}

// brokenBundles has a version whose programs end at once.
type brokenBundles struct {
	Bundles
	minor, program string
}

func (b brokenBundles) Ensure(ctx context.Context, minor string, progress func(upstream.Progress)) (string, error) {
	if minor == b.minor {
		if b.program == "" {
			return "", errors.New("compiling failed")
		}
		return b.program, nil
	}
	return b.Bundles.Ensure(ctx, minor, progress)
}

func TestUpgradeToAVersionThatDoesNotWork(t *testing.T) {
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	program := filepath.Join(dir, "kube")
	// One that does not start at all, one whose API server hangs, one without programs.
	for name, script := range map[string]string{
		"dies":    "#!/bin/sh\necho 'E0101 cannot possibly work'\nexit 1\n",
		"hangs":   "#!/bin/sh\nexec sleep 1000\n",
		"missing": "",
	} {
		t.Run(name, func(t *testing.T) {
			broken := brokenBundles{Bundles: absoluteBundles(), minor: "1.36"}
			if script != "" {
				broken.program = program
				if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			d := start(t, dir, owner, func(o *Options) {
				o.Bundles = broken
				o.UpgradeTimeout = 3 * time.Second
			})
			c := newCluster("steady-"+name, "1.35")
			d.create(c)
			d.until("ready", func() bool { return d.plane(c).Ready })
			before := d.processes.List(c.ID + "/")
			out := watchOutage(t, d.forgetful(c), d.plane(c).Endpoint+
				"/api/v1/namespaces/default/serviceaccounts/default")
			id := d.update(c, record.Update{Type: ekstypes.UpdateTypeVersionUpdate, PreviousVersion: "1.35"},
				func(c *record.Cluster) { c.Version = "1.36" })
			d.until("the upgrade to fail",
				func() bool { return d.updated(c, id).Status == ekstypes.UpdateStatusFailed })
			d.until("the old processes alone", func() bool { return len(d.processes.List(c.ID+"/")) == len(before) })
			out.end()
			if out.failed != 0 {
				t.Errorf("%d of %d requests failed: %s", out.failed, out.asked, out.errs[0])
			}
			u := d.updated(c, id)
			if len(u.Errors) != 1 || !strings.Contains(*u.Errors[0].ErrorMessage, "1.35 serves again") {
				t.Errorf("errors %+v", u.Errors)
			} else {
				t.Log(*u.Errors[0].ErrorMessage)
			}
			if p := d.plane(c); p.Version != "1.35" {
				t.Errorf("version %s", p.Version)
			}
			for i, s := range d.processes.List(c.ID + "/") {
				if s.PID != before[i].PID {
					t.Errorf("%s was restarted", s.Name)
				}
			}
			if _, err := record.Clusters(d.store).Modify(t.Context(), c.Key(),
				func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
				t.Fatal(err)
			}
			d.until("the row to go", func() bool {
				_, err := record.Clusters(d.store).Get(t.Context(), c.Key())
				return err != nil
			})
		})
	}
}

func TestAPortTakenByAnotherProgram(t *testing.T) {
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, nil)
	c := d.create(newCluster("moved", "1.35"))
	d.until("ready", func() bool { return d.plane(c).Ready })
	before := d.plane(c).Endpoint
	d.stop()
	if _, err := process.Kill(owner); err != nil { // as a reboot does
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(before, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d = start(t, dir, owner, nil)
	d.until("another endpoint", func() bool { return d.plane(c).Endpoint != before })
	admin, _ := d.client(c, "admin", "system:masters")
	d.until("an answer there", func() bool {
		_, err := getHealth(t.Context(), admin, d.plane(c).Endpoint+"/readyz")
		return err == nil
	})
}
