//go:build linux

package metadata

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestWhatAnInstanceReads(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for path, want := range map[string]string{
		"/latest":                                                                                  "dynamic\nmeta-data\nuser-data",
		"/latest/":                                                                                 "dynamic\nmeta-data\nuser-data",
		"/latest/meta-data/":                                                                       "ami-id\nami-launch-index\nami-manifest-path\nblock-device-mapping/\nevents/\nhostname\niam/\ninstance-action\ninstance-id\ninstance-life-cycle\ninstance-type\nlocal-hostname\nlocal-ipv4\nmac\nmetrics/\nnetwork/\nplacement/\nprofile\npublic-hostname\npublic-ipv4\npublic-keys/\nreservation-id\nsecurity-groups\nservices/\nsystem",
		"/latest/meta-data/instance-id":                                                            machineID,
		"/2021-03-23/meta-data/instance-type":                                                      "m5.large",
		"/latest/meta-data/hostname":                                                               "ip-10-0-0-4.eu-west-1.compute.internal",
		"/latest/meta-data/security-groups":                                                        "nodes\nextra",
		"/latest/meta-data/public-ipv4":                                                            "198.18.1.7",
		"/latest/meta-data/public-hostname":                                                        "ec2-198-18-1-7.eu-west-1.compute.amazonaws.com",
		"/latest/meta-data/placement/":                                                             "availability-zone\navailability-zone-id\nregion",
		"/latest/meta-data/placement/availability-zone-id":                                         "euw1-aza",
		"/latest/meta-data/services/domain":                                                        "amazonaws.com",
		"/latest/meta-data/block-device-mapping/":                                                  "ami\nroot",
		"/latest/meta-data/block-device-mapping/root":                                              "/dev/xvda",
		"/latest/meta-data/public-keys/":                                                           "0=mine",
		"/latest/meta-data/public-keys/0/":                                                         "openssh-key",
		"/latest/meta-data/public-keys/0/openssh-key":                                              "ssh-ed25519 AAAA mine",
		"/latest/meta-data/network/interfaces/macs/":                                               "0a:00:00:00:00:01/\n0a:00:00:00:00:02/",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01":                              "device-number\ninterface-id\nipv4-associations/\nlocal-hostname\nlocal-ipv4s\nmac\nnetwork-card\nowner-id\npublic-hostname\npublic-ipv4s\nsecurity-group-ids\nsecurity-groups\nsubnet-id\nsubnet-ipv4-cidr-block\nvpc-id\nvpc-ipv4-cidr-block\nvpc-ipv4-cidr-blocks",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/local-ipv4s":                  "10.0.0.4\n10.0.0.20",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:02/ipv4-prefix":                  "10.0.0.32/28",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:02/device-number":                "1",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/vpc-ipv4-cidr-blocks":         "10.0.0.0/16\n100.64.0.0/16",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/ipv4-associations/198.18.1.7": "10.0.0.4",
		"/latest/meta-data/iam/":                                                                   "info\nsecurity-credentials/",
		"/latest/meta-data/iam/security-credentials/":                                              "NodeRole",
		"/latest/user-data":                                                                        "#!/bin/sh\n\x00",
		"/latest/dynamic/":                                                                         "instance-identity/",
		"/latest/dynamic/instance-identity/":                                                       "document\npkcs7\nrsa2048\nsignature",
	} {
		if r := w.do(http.MethodGet, path); r.status != 200 || r.body != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, r.status, r.body, want)
		}
	}
	for _, path := range []string{
		"/latest/meta-data/nothing", "/latest/meta-data/instance-id/", "/latest/meta-data/instance-id/x",
		"/1999-01-01/meta-data/", "/latest/meta-data/tags/", "/latest/meta-data/spot/instance-action",
		"/latest/meta-data/autoscaling/", "/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/ipv6s",
		"/latest/meta-data/public-keys/0=mine",
	} {
		if r := w.do(http.MethodGet, path); r.status != 404 || !strings.Contains(r.body, "<h1>404 - Not Found</h1>") ||
			r.header.Get("Content-Type") != "text/html" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := w.do(http.MethodGet, "/"); !strings.HasPrefix(r.body, "1.0\n2007-01-19\n") || !strings.HasSuffix(r.body,
		"\nlatest") {
		t.Errorf("versions are %s", r.body)
	}

	w.change(func(i *record.Instance) {
		i.Metadata.InstanceMetadataTags = ec2types.InstanceMetadataTagsStateEnabled
		i.Lifecycle, i.SpotInstanceRequestID, i.SpotInterruption = ec2types.InstanceLifecycleTypeSpot, "sir-1",
			time.Date(2026, 11, 21, 14, 2, 0, 0, time.UTC)
	})
	put(t, record.SpotRequests(w.store), record.EC2Key(account, region, "sir-1"),
		record.SpotRequest{EC2Resource: resource("sir-1"), Behavior: "terminate"})
	for path, want := range map[string]string{
		"/latest/meta-data/tags/instance/":                   "Name\nteam",
		"/latest/meta-data/tags/instance/team":               "a",
		"/latest/meta-data/instance-life-cycle":              "spot",
		"/latest/meta-data/spot/instance-action":             `{"action":"terminate","time":"2026-11-21T14:02:00Z"}`,
		"/latest/meta-data/spot/termination-time":            "2026-11-21T14:02:00Z",
		"/latest/meta-data/events/recommendations/rebalance": `{"noticeTime":"2026-11-21T14:00:00Z"}`,
	} {
		if r := w.do(http.MethodGet, path); r.status != 200 || r.body != want {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
}

func TestAnAddressThatMovesIsNobodys(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.moving.Store(true)
	if r := w.do(http.MethodGet, "/latest/meta-data/instance-id"); r.status != http.StatusServiceUnavailable {
		t.Errorf("while the address moves: %+v", r)
	}
	w.moving.Store(false)
	if r := w.do(http.MethodGet, "/latest/meta-data/instance-id"); r.status != http.StatusOK || r.body != machineID {
		t.Errorf("after it has moved: %+v", r)
	}
}

func TestWhoAsksIsKnownByItsAddress(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.configure(filepath.Join(w.dir, "machine"), "lo", "10.0.0.33/32") // out of the delegated prefix
	w.configure(filepath.Join(w.dir, "machine"), "lo", "10.0.0.99/32") // nobody's
	if r, err := w.ask(w.client("machine", "10.0.0.33"), http.MethodGet, "/latest/meta-data/instance-id"); err != nil ||
		r.body != machineID {
		t.Errorf("from an address of a prefix: %+v, %v", r, err)
	}
	if r, err := w.ask(w.client("machine", "10.0.0.99"), http.MethodGet, "/latest/meta-data/instance-id"); err != nil ||
		r.status != 404 {
		t.Errorf("from an address of nobody: %+v, %v", r, err)
	}
}

func TestTheStateThatAnAutoScalingGroupIsAbout(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"Pending": "InService", "Pending:Wait": "InService", "InService": "InService", "Terminating:Wait": "Terminated",
		"Terminating": "Terminated", "Standby": "Standby",
		"EnteringStandby": "Standby", "Detaching": "Detached",
	} {
		if got := targetState(state); got != want {
			t.Errorf("%s leads to %s, want %s", state, got, want)
		}
	}
}
