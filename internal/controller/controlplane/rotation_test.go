package controlplane

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestWhichStepOfTheRotationIsDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	key := func(accepted, signing time.Time) record.ServiceAccountKey {
		return record.ServiceAccountKey{AcceptedAt: accepted, SigningSince: signing}
	}
	signs := func(d time.Duration) record.ServiceAccountKey { return key(ago(d+time.Hour), ago(d)) }
	never := time.Time{}
	const day = 24 * time.Hour
	for _, test := range []struct {
		name    string
		created time.Time
		keys    []record.ServiceAccountKey
		want    rotationStep
	}{
		{"a cluster of this week", ago(7*day - 1), nil, keepKeys},
		{"a cluster that is a week old", ago(7 * day), nil, addKey},
		{"a cluster from before there were rotations", ago(400 * day), nil, addKey},
		{"the API server does not accept the new key yet", ago(30 * day),
			[]record.ServiceAccountKey{signs(30 * day), key(never, never)}, keepKeys},
		{"others may not know the new key yet", ago(30 * day),
			[]record.ServiceAccountKey{signs(30 * day), key(ago(time.Hour-1), never)}, keepKeys},
		{"the new key is known everywhere", ago(30 * day),
			[]record.ServiceAccountKey{signs(30 * day), key(ago(time.Hour), never)}, signWithKey},
		{"the new key signs", ago(7 * day),
			[]record.ServiceAccountKey{signs(7 * day), signs(0)}, keepKeys},
		{"the new key has signed for a week", ago(14 * day),
			[]record.ServiceAccountKey{signs(14 * day), signs(7 * day)}, addKey},
		{"a token of the former key may be valid", ago(100 * day),
			[]record.ServiceAccountKey{signs(97 * day), signs(90*day - 1), signs(day)}, keepKeys},
		{"no token of the former key is valid", ago(100 * day),
			[]record.ServiceAccountKey{signs(97 * day), signs(90 * day), signs(day)}, forgetKey},
		{"the only key is never forgotten, however long the daemon was away", ago(400 * day),
			[]record.ServiceAccountKey{signs(300 * day)}, addKey},
		{"nor one whose successor does not sign", ago(400 * day),
			[]record.ServiceAccountKey{signs(300 * day), key(never, never)}, keepKeys},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := record.ControlPlaneSecrets{ServiceAccountKeys: test.keys}
			if got := nextStep(s, test.created, now); got != test.want {
				t.Errorf("the step is %v, want %v", got, test.want)
			}
		})
	}
}

// TestKeysInTheRecord follows the record of a cluster, which an earlier version has written, through half a year.
func TestKeysInTheRecord(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := makeSecrets("ID", created, new(Controller).rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "ServiceAccountKeys") {
		t.Fatalf("before a rotation the record is not as it was before there were rotations: %v", err)
	}
	first := slices.Clone(s.ServiceAccountKey)
	parse := func() serviceAccountKeys {
		t.Helper()
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		s = record.ControlPlaneSecrets{}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		k, err := parseSecrets(s)
		if err != nil {
			t.Fatal(err)
		}
		return k.serviceAccount
	}
	has := func(all []*rsa.PublicKey, key *rsa.PrivateKey) bool {
		return slices.ContainsFunc(all, func(k *rsa.PublicKey) bool { return k.Equal(&key.PublicKey) })
	}
	legacy := parse().legacy
	signers := []*rsa.PrivateKey{legacy}
	for now := created; now.Before(created.Add(180 * 24 * time.Hour)); now = now.Add(time.Hour) {
		if nextStep(s, created, now) == keepKeys {
			continue
		}
		before := parse()
		for step := nextStep(s, created, now); step != keepKeys; step = nextStep(s, created, now) {
			var next record.ServiceAccountKey
			if step == addKey {
				key, err := new(Controller).rsaKey()
				if err != nil {
					t.Fatal(err)
				}
				if next, err = newServiceAccountKey(key); err != nil {
					t.Fatal(err)
				}
			}
			if err := advanceKeys(&s, step, created, now, next); err != nil {
				t.Fatal(err)
			}
		}
		k := parse()
		if !k.signing.Equal(before.signing) {
			if !has(before.published, k.signing) {
				t.Fatalf("%v: a key signs that was not accepted and published before", now)
			}
			signers = append(signers, k.signing)
		}
		if !k.legacy.Equal(legacy) || !has(k.accepted(), legacy) || string(s.ServiceAccountKey) != string(first) {
			t.Fatalf("%v: the first key is not that of tokens in Secrets any more", now)
		}
		for i, key := range signers {
			ended := created.Add(time.Duration(i+1) * (signingTime + publicationTime))
			valid := i == len(signers)-1 || now.Before(ended.Add(formerKeyLife))
			if published := has(k.published, key); valid && !published || !valid && published &&
				now.After(ended.Add(formerKeyLife+24*time.Hour)) {
				t.Fatalf("%v: key %d is published: %v", now, i, published)
			}
		}
		if k.awaitsAcceptance {
			s.ServiceAccountKeys[len(s.ServiceAccountKeys)-1].AcceptedAt = now
		}
	}
	private := 0
	for _, key := range s.ServiceAccountKeys {
		if key.PrivateKey != nil {
			private++
		}
	}
	if len(signers) < 24 || len(s.ServiceAccountKeys) > 15 || private > 2 {
		t.Errorf("%d keys have signed; the record has %d, %d of them private", len(signers),
			len(s.ServiceAccountKeys), private)
	}
}

// aged is a cluster whose keys tests make old.
type aged struct {
	*daemon
	cluster record.Cluster
	admin   *http.Client
	host    string
}

// reconcile requests an update of the cluster.
func (a aged) reconcile(change func(*record.Cluster)) (id string) {
	a.Helper()
	return a.update(a.cluster, record.Update{Type: ekstypes.UpdateTypeConfigUpdate}, change)
}

// age makes the keys older in the record, as if they were the same at an earlier time.
func (a aged) age(by time.Duration) {
	a.Helper()
	_, err := record.ControlPlaneSecretsTable(a.store).Modify(a.Context(), a.cluster.Key(),
		func(s *record.ControlPlaneSecrets) error {
			for i := range s.ServiceAccountKeys {
				key := &s.ServiceAccountKeys[i]
				for _, at := range []*time.Time{&key.AcceptedAt, &key.SigningSince} {
					if !at.IsZero() {
						*at = at.Add(-by)
					}
				}
			}
			return nil
		})
	if err != nil {
		a.Fatal(err)
	}
}

// after lets time pass for the keys and awaits what the controller does.
func (a aged) after(by time.Duration) {
	a.Helper()
	a.age(by)
	id := a.reconcile(func(c *record.Cluster) { c.CreatedAt = c.CreatedAt.Add(-by) })
	a.until("an update", func() bool { return a.updated(a.cluster, id).Status == ekstypes.UpdateStatusSuccessful })
}

func (a aged) keys() record.ControlPlaneSecrets {
	a.Helper()
	row, err := record.ControlPlaneSecretsTable(a.store).Get(a.Context(), a.cluster.Key())
	if err != nil {
		a.Fatal(err)
	}
	return row.Value
}

// token requests a token for the API server and STS.
func (a aged) token(t *testing.T) (token, keyID string) {
	t.Helper()
	body := post(t, a.admin, a.host+"/api/v1/namespaces/default/serviceaccounts/default/token",
		`{"spec":{"audiences":["sts.amazonaws.com","https://kubernetes.default.svc"],"expirationSeconds":864000}}`)
	var request struct {
		Status struct {
			Token               string
			ExpirationTimestamp time.Time
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	if life := time.Until(request.Status.ExpirationTimestamp); life > maxTokenLife {
		t.Errorf("a token lives for %v", life)
	}
	return request.Status.Token, keyOfToken(t, request.Status.Token)
}

func keyOfToken(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}

func (a aged) published(t *testing.T) (ids []string) {
	t.Helper()
	issuer, err := record.Issuers(a.store).Get(t.Context(), store.Key(a.cluster.ID))
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(issuer.Value.JWKS, &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range set.Keys {
		ids = append(ids, key.KeyID)
	}
	return ids
}

// accepts reports whether the API server accepts a token.
func (a aged) accepts(t *testing.T, token string) bool {
	t.Helper()
	client := anonymousClient(t, a.plane(a.cluster))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.host+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("/version answered %s", response.Status)
	}
	return response.StatusCode == http.StatusOK
}

// assumeRole returns a function that assumes a role with a token of the cluster's service accounts, through STS and IAM
// over the store of the daemon.
func (a aged) assumeRole(t *testing.T) func(token string) error {
	t.Helper()
	ctx := t.Context()
	quiet := slog.New(slog.DiscardHandler)
	who, err := identity.New(ctx, a.store, identity.Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	mux := wire.NewMux(wire.Options{Credentials: who, Authorizer: who, Region: region, Logger: quiet})
	iam.New(a.store, who, time.Now).Register(mux)
	sts.New(a.store, who, sts.NewIssuers(a.store, outbound.Policy{}, quiet), time.Now).Register(mux)
	root, err := iam.Bootstrap(ctx, a.store, account)
	if err != nil {
		t.Fatal(err)
	}
	connections := &http.Client{Transport: mux.Transport()}
	endpoint := aws.String("http://coracle.internal")
	admin := awsiam.New(awsiam.Options{Region: region, BaseEndpoint: endpoint, HTTPClient: connections,
		RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider(root.ID, root.Secret, "")})
	issuer := a.cluster.Issuer()
	provider := awstest.Must[*awsiam.CreateOpenIDConnectProviderOutput](t)(admin.CreateOpenIDConnectProvider(ctx,
		&awsiam.CreateOpenIDConnectProviderInput{Url: &issuer, ClientIDList: []string{"sts.amazonaws.com"}}))
	trust := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Federated":"` +
		*provider.OpenIDConnectProviderArn + `"},"Action":"sts:AssumeRoleWithWebIdentity"}}`
	role := awstest.Must[*awsiam.CreateRoleOutput](t)(admin.CreateRole(ctx,
		&awsiam.CreateRoleInput{RoleName: aws.String("irsa"), AssumeRolePolicyDocument: &trust}))
	client := awssts.New(awssts.Options{Region: region, BaseEndpoint: endpoint, HTTPClient: connections,
		RetryMaxAttempts: 1})
	return func(token string) error {
		_, err := client.AssumeRoleWithWebIdentity(context.WithoutCancel(ctx), &awssts.AssumeRoleWithWebIdentityInput{
			RoleArn: role.Role.Arn, RoleSessionName: aws.String("pod"), WebIdentityToken: &token})
		return err
	}
}

// TestTokensOutliveTheRotationOfTheirKey rotates the keys of a cluster until the first ones are forgotten.
func TestTokensOutliveTheRotationOfTheirKey(t *testing.T) {
	t.Parallel()
	needBundle(t, "1.35")
	dir, owner := newDataDirectory(t)
	d := start(t, dir, owner, nil)
	c := d.create(newCluster("rotating", "1.35"))
	d.until("the cluster to be ready", func() bool { return d.plane(c).Ready })
	admin, host := d.client(c, "admin", "system:masters")
	a := aged{d, c, admin, host}
	assume := a.assumeRole(t)
	valid := func(what, token string) {
		t.Helper()
		if !a.accepts(t, token) {
			t.Errorf("the API server refuses %s", what)
		}
		if err := assume(token); err != nil {
			t.Errorf("STS refuses %s: %v", what, err)
		}
	}
	others := func() (pids []int) {
		for _, s := range d.processes.List(c.ID + "/") {
			if componentOf(s.Name) != kubeAPIServer {
				pids = append(pids, s.PID)
			}
		}
		return pids
	}

	post(t, admin, host+"/api/v1/namespaces/default/secrets", `{"metadata":{"name":"legacy","annotations":{`+
		`"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`)
	var legacy struct{ Data struct{ Token []byte } }
	d.until("the token in a Secret", func() bool {
		body, err := getHealth(t.Context(), admin, host+"/api/v1/namespaces/default/secrets/legacy")
		return err == nil && json.Unmarshal(body, &legacy) == nil && len(legacy.Data.Token) > 0
	})
	running, secret := others(), a.keys().ServiceAccountKey
	first, firstKey := a.token(t)
	valid("a token", first)

	a.after(signingTime)
	if all := a.published(t); len(all) != 2 || all[0] != firstKey {
		t.Fatalf("after a week the keys %v are published", all)
	}
	if _, key := a.token(t); key != firstKey {
		t.Errorf("a key signs that others may not know yet")
	}
	valid("a token of the former API server", first)

	a.after(publicationTime)
	second, secondKey := a.token(t)
	if all := a.published(t); !slices.Equal(all, []string{firstKey, secondKey}) || firstKey == secondKey {
		t.Fatalf("the key %s signs, and the keys %v are published", secondKey, all)
	}
	valid("a token of the former key", first)
	valid("a token of the new key", second)
	if keys := a.keys().ServiceAccountKeys; keys[0].PrivateKey != nil {
		t.Error("the former private key is kept")
	}

	a.after(signingTime)
	a.after(publicationTime)
	third, thirdKey := a.token(t)
	valid("a token of the first key", first)
	valid("a token of the former key", second)
	valid("a token of the third key", third)

	a.after(formerKeyLife)
	if all := a.published(t); len(all) != 2 || all[0] != thirdKey {
		t.Fatalf("of the keys %s, %s and %s, %v are published", firstKey, secondKey, thirdKey, all)
	}
	valid("a token of the key that signs", third)
	if a.accepts(t, second) {
		t.Error("the API server accepts a token whose key is forgotten")
	}
	for _, token := range []string{first, second} {
		if err := assume(token); awstest.Code(err) != "InvalidIdentityToken" {
			t.Errorf("STS answers a token whose key is forgotten with %v", err)
		}
	}
	if !a.accepts(t, string(legacy.Data.Token)) {
		t.Error("the API server refuses the token in a Secret")
	}
	if now := others(); !slices.Equal(now, running) {
		t.Errorf("other components were restarted: they were %v and are %v", running, now)
	}
	if string(a.keys().ServiceAccountKey) != string(secret) {
		t.Error("the key from which the credentials of the cloud controller manager derive has changed")
	}
}

func TestADaemonKilledWhileItRotatesKeys(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	needBundle(t, "1.35")
	m := newMortal(t)
	c := m.create(newCluster("rotating", "1.35"))
	m.runUntil(t, "the cluster to be ready", m.ready(c))
	a := aged{daemon: m.daemon, cluster: c}
	for _, point := range dieRotating {
		t.Run(point, func(t *testing.T) {
			by, want := signingTime, len(a.keys().ServiceAccountKeys)+1
			if point == crashKeySigns.Name() {
				by, want = publicationTime, want-1
			}
			if want == 1 {
				want = 2 // the first key joins its successor
			}
			a.age(by)
			id := a.reconcile(func(c *record.Cluster) { c.CreatedAt = c.CreatedAt.Add(-by) })
			m.through(t, point, "the update to end", m.ended(c, id))
			keys := a.keys().ServiceAccountKeys
			if len(keys) != want {
				t.Errorf("there are %d keys, want %d", len(keys), want)
			}
			newest := keys[len(keys)-1]
			if newest.AcceptedAt.IsZero() || newest.SigningSince.IsZero() == (point == crashKeySigns.Name()) {
				t.Errorf("the newest key is accepted since %v and signs since %v", newest.AcceptedAt, newest.SigningSince)
			}
			if all := a.published(t); len(all) != want {
				t.Errorf("the keys %v are published", all)
			}
			m.complete(t, c, "1.35")
			if point == crashKeyAdded.Name() { // until it signs there is no next one
				a.age(publicationTime)
				id := a.reconcile(func(*record.Cluster) {})
				m.runUntil(t, "the update to end", m.ended(c, id))
			}
		})
	}
}
