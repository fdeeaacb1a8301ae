package autoscaling_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	v2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	clientv3 "go.etcd.io/etcd/client/v3"

	coracle "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// TestMortal runs the controller of groups in a process of its own, which TestTheControllerMayDieAnywhere starts and
// kills.
func TestMortal(t *testing.T) {
	endpoint, prefix, url := os.Getenv("MORTAL_ETCD"), os.Getenv("MORTAL_PREFIX"), os.Getenv("MORTAL_URL")
	if endpoint == "" {
		t.Skip("runs as a process of TestTheControllerMayDieAnywhere")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: eventually.Limit})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), client, store.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	controller := autoscalinggroup.New(autoscalinggroup.Options{Store: s,
		API: coracle.NewUpkeep(coracle.Options{Store: s}), EC2: func(string, string, string) autoscalinggroup.EC2 {
			return ec2.New(ec2.Options{Region: region, BaseEndpoint: &url, HTTPClient: awsclient.HTTP(),
				Credentials: credentials.NewStaticCredentialsProvider("ASIAROLE", "secret", "")})
		}, TargetGroups: func(string, string, string) autoscalinggroup.TargetGroups {
			return v2.New(v2.Options{Region: region, BaseEndpoint: &url, HTTPClient: awsclient.HTTP(),
				Credentials: credentials.NewStaticCredentialsProvider("ASIAROLE", "secret", "")})
		}, Classic: func(string, string, string) autoscalinggroup.Classic { return nil }})
	if err := reconcile.Run(t.Context(), slog.Default(), controller.Controllers()...); err != nil {
		t.Fatal(err)
	}
}

// dieAt runs the controller until it dies at a point.
func (w *fixture) dieAt(point string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), eventually.Limit)
	defer cancel()
	mortal := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMortal$")
	mortal.Env = append(os.Environ(), crash.Environment+"="+point, "MORTAL_ETCD="+w.etcd.Endpoints()[0],
		"MORTAL_PREFIX="+w.prefix, "MORTAL_URL="+w.url)
	out, err := mortal.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.t.Fatalf("at %s it did not die: %v\n%s", point, err, out)
	}
}

// TestTheControllerMayDieWhileItRegisters has the controller die while it registers and deregisters instances. Nothing
// that is gone stays registered, and all that serves is.
func TestTheControllerMayDieWhileItRegisters(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t)
	group := w.targetGroup("web", "0")
	w.stopController()
	w.create("nodes", 0, 9, 2, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.TargetGroupARNs = []string{group}
	})
	w.dieAt("autoscaling/traffic-registering")
	w.size(1)
	w.dieAt("autoscaling/traffic-deregistered")
	w.startController()
	served := w.serves("nodes", 1)
	w.eventually("the target group has what serves, and nothing else", func() bool {
		return slices.Equal(w.targets(group), served)
	})
}

func TestTheControllerMayDieAnywhere(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	w := newFixture(t)
	w.stopController()
	w.create("nodes", 0, 9, 1)
	died := 0
	for _, point := range crash.Points() {
		if !strings.HasPrefix(point, "autoscaling/launch") {
			continue
		}
		died++
		w.size(int32(3 * died))
		w.dieAt(point)
		w.eventually("a launch is written down after the death at "+point,
			func() bool { return rows(t, record.AutoScalingLaunches(w.store)) > 0 })
	}
	if died != 2 {
		t.Errorf("died at %d points", died)
	}
	w.startController()
	w.serves("nodes", 3*died)
	if alive := w.alive(); len(alive) != 3*died {
		t.Errorf("%d instances are alive, want %d", len(alive), 3*died)
	}
	if n := rows(t, record.AutoScalingLaunches(w.store)); n != 0 {
		t.Errorf("%d launches are still written down", n)
	}
}
