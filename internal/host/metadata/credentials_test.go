//go:build linux

package metadata

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestCredentialsOfTheRole(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const path = "/latest/meta-data/iam/security-credentials/NodeRole"
	read := func(path string) (d credentialsDocument) {
		t.Helper()
		r := w.do(http.MethodGet, path)
		if err := json.Unmarshal([]byte(r.body), &d); err != nil || r.status != 200 {
			t.Fatalf("%s: %+v: %v", path, r, err)
		}
		return d
	}
	if d := read(path); d.Code != "Success" || d.Type != "AWS-HMAC" || d.AccessKeyID != "ASIANodeRole" ||
		d.SecretAccessKey != "secret" || d.Token != "token" || d.Expiration != "2026-11-21T15:00:00Z" ||
		d.LastUpdated != "2026-11-21T14:00:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	read(path)
	if w.asked != 1 {
		t.Errorf("credentials were made %d times", w.asked)
	}
	// Fresh ones before the end; those at hand while there can be no others.
	w.clock.SetTime(w.clock.Now().Add(46 * time.Minute))
	w.mu.Lock()
	works := w.credentials
	w.credentials = func(string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no") }
	w.mu.Unlock()
	if d := read(path); d.Code != "Success" || d.Expiration != "2026-11-21T15:00:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	w.mu.Lock()
	w.credentials = works
	w.mu.Unlock()
	if d := read(path); d.Expiration != "2026-11-21T15:46:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	if d := read("/latest/meta-data/iam/info"); d.Code != "Success" ||
		d.InstanceProfileARN != "arn:aws:iam::111122223333:instance-profile/nodes" || d.InstanceProfileID != "AIPA1" {
		t.Errorf("info is %+v", d)
	}

	// EC2 may not assume the role.
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.mu.Lock()
	w.credentials = func(string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no") }
	w.mu.Unlock()
	if d := read(path); d.Code != "AssumeRoleUnauthorizedAccess" || !strings.HasPrefix(d.Message,
		"EC2 cannot assume the role NodeRole.") || d.AccessKeyID != "" {
		t.Errorf("credentials are %+v", d)
	}

	// The profile has no role; it was made again; there is none.
	profiles, key := record.InstanceProfiles(w.store), record.InstanceProfileKey(account, "nodes")
	put(t, profiles, key, record.InstanceProfile{Account: account, Name: "nodes", Path: "/", ID: "AIPA1"})
	if r := w.do(http.MethodGet, path); r.status != 404 {
		t.Errorf("without a role: %+v", r)
	}
	put(t, profiles, key, record.InstanceProfile{Account: account, Name: "nodes", Path: "/", ID: "AIPA2",
		Role: "NodeRole"})
	if d := read("/latest/meta-data/iam/info"); d.Code != "InstanceProfileNotFound" {
		t.Errorf("info is %+v", d)
	}
	w.change(func(i *record.Instance) { i.InstanceProfileARN, i.InstanceProfileID = "", "" })
	if r := w.do(http.MethodGet, "/latest/meta-data/iam/info"); r.status != 404 {
		t.Errorf("without a profile: %+v", r)
	}
}

func TestCredentialsOfFormerInstancesAreForgotten(t *testing.T) {
	t.Parallel()
	var c cache
	first := c.entryFor("i-0")
	for n := range maxIssued {
		c.entryFor(fmt.Sprintf("i-%d", n+1))
	}
	if c.all.Len() != maxIssued || c.entryFor("i-0") == first {
		t.Errorf("credentials of %d instances are kept, those of the first among them", c.all.Len())
	}
}
