package authenticator

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	onlyAPI       = ekstypes.AuthenticationModeApi
	onlyConfigMap = ekstypes.AuthenticationModeConfigMap
	both          = ekstypes.AuthenticationModeApiAndConfigMap
)

// The fields are those of EKS's audit log.
func TestAuthenticatedUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t, both)
	f.kube.set(map[string]string{
		"mapUsers": "- userarn: arn:aws:iam::111122223333:user/cli\n  username: kubernetes-admin\n  groups: " +
			"[system:masters]\n",
	})
	f.entry(record.AccessEntry{
		PrincipalARN: "arn:aws:iam::111122223333:role/teams/Admin",
		Username:     "arn:aws:sts::111122223333:assumed-role/Admin/{{SessionName}}",
	})
	for _, test := range []struct {
		name, token string
		want        authenticationv1.UserInfo
	}{
		{"session of a role", f.role("/teams/", "Admin", "alice@example.com"), authenticationv1.UserInfo{
			Username: "arn:aws:sts::111122223333:assumed-role/Admin/alice-example.com",
			UID:      "aws-iam-authenticator:111122223333:AROAADMIN",
			Extra: map[string]authenticationv1.ExtraValue{
				"accessKeyId":  {"ASIAADMIN"},
				"arn":          {"arn:aws:sts::111122223333:assumed-role/Admin/alice@example.com"},
				"canonicalArn": {"arn:aws:iam::111122223333:role/Admin"},
				"principalId":  {"AROAADMIN"},
				"sessionName":  {"alice@example.com"},
				"sigs.k8s.io/aws-iam-authenticator/principalId": {"AROAADMIN"},
			},
		}},
		{"user", f.user("/", "cli"), authenticationv1.UserInfo{
			Username: "kubernetes-admin",
			UID:      "aws-iam-authenticator:111122223333:AIDACLI",
			Groups:   []string{"system:masters"},
			Extra: map[string]authenticationv1.ExtraValue{
				"accessKeyId":  {"AKIACLI"},
				"arn":          {"arn:aws:iam::111122223333:user/cli"},
				"canonicalArn": {"arn:aws:iam::111122223333:user/cli"},
				"principalId":  {"AIDACLI"},
				"sessionName":  {""},
				"sigs.k8s.io/aws-iam-authenticator/principalId": {"AIDACLI"},
			},
		}},
	} {
		for _, asJSON := range []bool{false, true} {
			f.sts.mu.Lock()
			f.sts.json = asJSON
			f.sts.mu.Unlock()
			got := f.authenticate(test.token)
			if !got.Authenticated {
				t.Fatalf("%s: %s", test.name, got.Error)
			}
			if diff := cmp.Diff(test.want, got.User); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
		}
	}
}

func TestTokenIsForOneCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	who := caller{"arn:aws:iam::" + account + ":root", account, account}
	f.entry(record.AccessEntry{PrincipalARN: who.arn})
	for _, test := range []struct {
		cluster string
		good    bool
	}{{name, true}, {clusterID, true}, {"another", false}, {otherID, false}, {"", false}} {
		got := f.authenticate(f.token("AKIAROOT", who, test.cluster))
		if got.Authenticated != test.good {
			t.Errorf("token for cluster %q: authenticated is %t (%s), want %t", test.cluster, got.Authenticated,
				got.Error, test.good)
		}
		if !test.good && !strings.Contains(got.Error, "SignatureDoesNotMatch") {
			t.Errorf("token for cluster %q: error %q does not say why", test.cluster, got.Error)
		}
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:iam::111122223333:"
	inConfigMap := func(section, field, principal, username, groups string) map[string]string {
		return map[string]string{section: "- " + field + ": " + principal + "\n  username: " + username +
			"\n  groups: [" + groups + "]\n"}
	}
	for _, test := range []struct {
		name      string
		mode      ekstypes.AuthenticationMode
		token     func(f *fixture) string
		entries   []record.AccessEntry
		configMap map[string]string
		username  string
		groups    []string
		denied    string
	}{
		// Access entries.
		{
			name: "user with an entry", mode: onlyAPI,
			token: func(f *fixture) string { return f.user("/ops/", "bob") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "user/ops/bob", Username: arn + "user/ops/bob",
				Groups: []string{"viewers", "editors"}}},
			username: arn + "user/ops/bob", groups: []string{"viewers", "editors"},
		},
		{
			name: "root user with an entry", mode: onlyAPI, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root"}}, username: arn + "root",
		},
		{
			name: "role with a path", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/teams/tooling/", "Ops", "s1") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/teams/tooling/Ops"}},
			username: "arn:aws:sts::111122223333:assumed-role/Ops/s1",
		},
		{
			name: "entry without the role's path", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/teams/tooling/", "Ops", "s1") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Ops", Username: "ops:{{SessionName}}"}},
			username: "ops:s1",
		},
		{
			name: "entry with another path", mode: onlyAPI,
			token:   func(f *fixture) string { return f.role("/", "Ops", "s1") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/teams/Ops"}},
			denied:  "identity is not mapped",
		},
		{
			name: "every template", mode: onlyAPI,
			token: func(f *fixture) string { return f.role("/", "Ops", "a@b") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Ops",
				Username: "x:{{AccountID}}:{{SessionName}}:{{SessionNameRaw}}:{{AccessKeyID}}:{{Other}}",
				Groups:   []string{"g-{{SessionName}}"}}},
			// no templates in groups
			username: "x:111122223333:a-b:a@b:ASIAOPS:{{Other}}", groups: []string{"g-{{SessionName}}"},
		},
		{
			// An entry that was made while groups were templates gives nothing more than its text.
			name: "template in a group of an entry", mode: onlyAPI,
			token: func(f *fixture) string { return f.user("/", "bob") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "user/bob",
				Groups: []string{"{{SessionName}}system:masters"}}},
			username: arn + "user/bob", groups: []string{"{{SessionName}}system:masters"},
		},
		{
			name: "session that completes a group of Kubernetes", mode: onlyAPI,
			token: func(f *fixture) string { return f.role("/", "Ops", "system") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Ops",
				Groups: []string{"{{SessionNameRaw}}:masters"}}},
			username: "arn:aws:sts::111122223333:assumed-role/Ops/system",
			groups:   []string{"{{SessionNameRaw}}:masters"},
		},
		{
			name: "reserved group", mode: onlyAPI, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root", Groups: []string{"dev", "system:nodes"}}},
			denied:  `invalid group "system:nodes": group must not begin with system:`,
		},
		{
			name: "reserved group of EKS", mode: onlyAPI, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root", Groups: []string{"eks:service-operations"}}},
			denied:  `invalid group "eks:service-operations": group must not begin with eks:`,
		},
		{
			name: "system:masters", mode: onlyAPI, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root", Type: "STANDARD",
				Groups: []string{"system:masters"}}},
			denied: `invalid group "system:masters": group must not begin with system:`,
		},
		{
			name: "user name that is nothing but a session name, of a user", mode: onlyAPI,
			token:   func(f *fixture) string { return f.user("/", "bob") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "user/bob", Username: "{{SessionNameRaw}}"}},
			denied:  `the username "{{SessionNameRaw}}" is empty for this session`,
		},
		{
			name: "a session cannot smuggle in a template", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/", "Ops", "{{AccessKeyID}}") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Ops", Username: "x:{{SessionName}}"}},
			username: "x:{{AccessKeyID}}",
		},
		{
			name: "reserved user name", mode: onlyAPI,
			token:   func(f *fixture) string { return f.role("/", "Ops", "system") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Ops", Username: "{{SessionName}}:masters"}},
			denied:  `invalid username "system:masters": username must not begin with system:`,
		},
		{
			name: "EC2_LINUX", mode: onlyAPI,
			token: func(f *fixture) string { return f.role("/", "Node", "i-0123456789abcdef0") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Node", Type: "EC2_LINUX",
				Groups: []string{"system:nodes"}}},
			username: "system:node:ip-10-0-1-7.eu-west-1.compute.internal", groups: []string{"system:bootstrappers",
				"system:nodes"},
		},
		{
			name: "EC2_WINDOWS", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/", "Node", "i-0123456789abcdef0") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Node", Type: "EC2_WINDOWS"}},
			username: "system:node:ip-10-0-1-7.eu-west-1.compute.internal", groups: []string{"system:bootstrappers",
				"system:nodes", "eks:kube-proxy-windows"},
		},
		{
			name: "EC2", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/", "Node", "i-0123456789abcdef0") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Node", Type: "EC2"}},
			username: "system:node:ip-10-0-1-7.eu-west-1.compute.internal", groups: []string{"system:bootstrappers",
				"system:nodes"},
		},
		{
			name: "FARGATE_LINUX", mode: onlyAPI,
			token: func(f *fixture) string {
				f.fargate(nil)
				return f.role("/", "Pods", fargateNodeName)
			},
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Pods", Type: "FARGATE_LINUX"}},
			username: "system:node:fargate-ip-10-0-1-9.eu-west-1.compute.internal",
			groups:   []string{"system:bootstrappers", "system:nodes", "system:node-proxier"},
		},
		{
			name: "HYBRID_LINUX", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/", "Rack", "mi-0abc") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Rack", Type: "HYBRID_LINUX"}},
			username: "system:node:mi-0abc", groups: []string{"system:bootstrappers", "system:nodes"},
		},
		{
			name: "HYPERPOD_LINUX", mode: onlyAPI,
			token:    func(f *fixture) string { return f.role("/", "Pod", "hyperpod-i-0abc") },
			entries:  []record.AccessEntry{{PrincipalARN: arn + "role/Pod", Type: "HYPERPOD_LINUX"}},
			username: "system:node:hyperpod-i-0abc", groups: []string{"system:bootstrappers", "system:nodes"},
		},
		{
			name: "node role assumed by somebody", mode: onlyAPI,
			token:   func(f *fixture) string { return f.role("/", "Node", "mallory") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Node", Type: "EC2_LINUX"}},
			denied:  `SessionName "mallory" did not contain an instance id`,
		},
		{
			name: "instance that is not there", mode: onlyAPI,
			token:   func(f *fixture) string { return f.role("/", "Node", "i-00000000000000000") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Node", Type: "EC2_LINUX"}},
			denied:  "The instance ID 'i-00000000000000000' does not exist",
		},
		{
			name: "entry of an earlier cluster of that name", mode: onlyAPI, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root", ClusterID: otherID}},
			denied:  "identity is not mapped",
		},
		{
			name: "role created again after its entry", mode: onlyAPI,
			token:   func(f *fixture) string { return f.role("/", "Ops", "s1") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Ops", CreatedAt: testNow.Add(-2 * time.Hour)}},
			denied:  "identity is not mapped",
		},
		{
			name: "user created again after its entry", mode: onlyAPI,
			token:   func(f *fixture) string { return f.user("/", "bob") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "user/bob", CreatedAt: testNow.Add(-2 * time.Hour)}},
			denied:  "identity is not mapped",
		},
		{
			name: "older user that was given the name of a deleted one", mode: onlyAPI,
			token:   func(f *fixture) string { return f.user("/", "bob") },
			entries: []record.AccessEntry{{PrincipalARN: arn + "user/bob", PrincipalID: "AIDAFORMERBOB"}},
			denied:  "identity is not mapped",
		},
		{
			name: "user of another account", mode: onlyAPI, token: (*fixture).foreigner,
			entries:  []record.AccessEntry{{PrincipalARN: foreignARN, PrincipalID: "AIDAEVE", Username: "eve"}},
			username: "eve",
		},
		{
			name: "user of another account that was given the name of a deleted one", mode: onlyAPI,
			token:   (*fixture).foreigner,
			entries: []record.AccessEntry{{PrincipalARN: foreignARN, PrincipalID: "AIDAFORMEREVE"}},
			denied:  "identity is not mapped",
		},
		{
			name: "session of a role that was deleted and created again", mode: onlyAPI,
			token: func(f *fixture) string {
				f.role("/", "Ops", "s1")
				return f.token("ASIAOLD", caller{"arn:aws:sts::111122223333:assumed-role/Ops/s1", "AROAOLD:s1",
					account}, name)
			},
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Ops"}}, denied: "identity is not mapped",
		},
		{
			name: "session of a role that is gone", mode: onlyAPI,
			token: func(f *fixture) string {
				return f.token("ASIAOLD", caller{"arn:aws:sts::111122223333:assumed-role/Gone/s1", "AROAOLD:s1",
					account}, name)
			},
			entries: []record.AccessEntry{{PrincipalARN: arn + "role/Gone"}}, denied: "identity is not mapped",
		},
		{name: "nobody's entry", mode: onlyAPI, token: (*fixture).root, denied: "identity is not mapped"},

		// aws-auth.
		{
			name: "role in aws-auth", mode: onlyConfigMap,
			token:     func(f *fixture) string { return f.role("/", "Ops", "s1") },
			configMap: inConfigMap("mapRoles", "rolearn", arn+"role/Ops", "ops:{{SessionName}}", "system:masters"),
			username:  "ops:s1", groups: []string{"system:masters"},
		},
		{
			name: "role with a path is in aws-auth without it", mode: onlyConfigMap,
			token:     func(f *fixture) string { return f.role("/teams/", "Ops", "s1") },
			configMap: inConfigMap("mapRoles", "rolearn", arn+"role/Ops", "ops", ""),
			username:  "ops",
		},
		{
			name: "role with its path does not count in aws-auth", mode: onlyConfigMap,
			token:     func(f *fixture) string { return f.role("/teams/", "Ops", "s1") },
			configMap: inConfigMap("mapRoles", "rolearn", arn+"role/teams/Ops", "ops", ""),
			denied:    "identity is not mapped",
		},
		{
			name: "role ARN in another case", mode: onlyConfigMap,
			token:     func(f *fixture) string { return f.role("/", "Ops", "s1") },
			configMap: inConfigMap("mapRoles", "rolearn", strings.ToUpper(arn)+"Role/OPS", "ops", ""),
			username:  "ops",
		},
		{
			name: "node role", mode: onlyConfigMap,
			token: func(f *fixture) string { return f.role("/", "Node", "i-0123456789abcdef0") },
			configMap: inConfigMap("mapRoles", "rolearn", arn+"role/Node", "system:node:{{EC2PrivateDNSName}}",
				"system:bootstrappers, system:nodes"),
			username: "system:node:ip-10-0-1-7.eu-west-1.compute.internal", groups: []string{"system:bootstrappers",
				"system:nodes"},
		},
		{
			name: "account", mode: onlyConfigMap,
			token:     func(f *fixture) string { return f.role("/", "Anyone", "s1") },
			configMap: map[string]string{"mapAccounts": "- " + account},
			username:  arn + "role/Anyone",
		},
		{
			name: "federated user", mode: onlyConfigMap,
			token: func(f *fixture) string {
				return f.token("ASIAFED", caller{"arn:aws:sts::111122223333:federated-user/carol", account + ":carol",
					account}, name)
			},
			configMap: inConfigMap("mapUsers", "userarn", "arn:aws:sts::111122223333:federated-user/carol", "carol",
				""),
			username: "carol",
		},
		{
			name: "templates in aws-auth", mode: onlyConfigMap,
			token: func(f *fixture) string { return f.role("/", "Ops", "masters") },
			configMap: inConfigMap("mapRoles", "rolearn", arn+"role/Ops", "system:{{AccountID}}:{{SessionName}}",
				"'system:{{SessionName}}', '{{AccountID}}'"),
			username: "system:111122223333:masters", groups: []string{"system:masters", account},
		},
		{name: "no aws-auth", mode: onlyConfigMap, token: (*fixture).root, denied: "identity is not mapped"},

		// Both.
		{
			name: "entry goes before aws-auth", mode: both, token: (*fixture).root,
			entries:   []record.AccessEntry{{PrincipalARN: arn + "root", Username: "by-entry", Groups: []string{"a"}}},
			configMap: inConfigMap("mapUsers", "userarn", arn+"root", "by-map", "b"),
			username:  "by-entry", groups: []string{"a"},
		},
		{
			name: "aws-auth for who has no entry", mode: both, token: (*fixture).root,
			configMap: inConfigMap("mapUsers", "userarn", arn+"root", "by-map", "b"),
			username:  "by-map", groups: []string{"b"},
		},
		{
			name: "entries do not count with CONFIG_MAP", mode: onlyConfigMap, token: (*fixture).root,
			entries: []record.AccessEntry{{PrincipalARN: arn + "root"}}, denied: "identity is not mapped",
		},
		{
			name: "aws-auth does not count with API", mode: onlyAPI, token: (*fixture).root,
			configMap: inConfigMap("mapUsers", "userarn", arn+"root", "by-map", "b"),
			denied:    "identity is not mapped",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.mode)
			f.kube.set(test.configMap)
			for _, e := range test.entries {
				f.entry(e)
			}
			token := test.token(f)
			var got authenticationv1.TokenReviewStatus
			eventually.Nil(t, "it is judged", func() error {
				got = f.authenticate(token)
				if got.Authenticated == (test.denied == "") && strings.Contains(got.Error, test.denied) {
					return nil
				}
				err := fmt.Errorf("got %+v, want denial with %q", got, test.denied)
				if test.configMap == nil {
					return eventually.Never(err)
				}
				return err // the watch may still be on its way to the ConfigMap
			})
			if test.denied != "" {
				return
			}
			if got.User.Username != test.username {
				t.Errorf("username is %q, want %q", got.User.Username, test.username)
			}
			if diff := cmp.Diff(test.groups, got.User.Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesTakeEffect(t *testing.T) {
	t.Parallel()
	f := newFixture(t, both)
	const arn = "arn:aws:iam::111122223333:root"
	token := f.root()
	users := func(username string) map[string]string {
		return map[string]string{"mapUsers": "- userarn: " + arn + "\n  username: " + username + "\n"}
	}
	becomes := func(want string) {
		t.Helper()
		eventually.Nil(t, fmt.Sprintf("the user is %q", want), func() error {
			if got := f.authenticate(token).User.Username; got != want {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	tells := func(want string) {
		t.Helper()
		eventually.Nil(t, "the log tells of it", func() error {
			if log := f.log(); !strings.Contains(log, want) {
				return fmt.Errorf("it lacks %s:\n%s", want, log)
			}
			return nil
		})
	}
	f.kube.set(users("first"))
	becomes("first")
	f.kube.set(users("second"))
	becomes("second")

	f.kube.setDown(true)
	becomes("second") // the last known content
	f.entry(record.AccessEntry{PrincipalARN: arn, Username: "entry"})
	becomes("entry") // at once, whatever the API server does
	f.removeEntry(arn)
	becomes("second")
	tells("Unable to re-establish watch of aws-auth")
	f.kube.set(users("third"))
	f.kube.setDown(false)
	becomes("third")
	tells("watching aws-auth again")

	f.kube.set(map[string]string{"mapUsers": users("fourth")["mapUsers"] + "- username: nobody\n"})
	becomes("fourth")
	tells(`level=warning msg="error parsing aws-auth; the entry is skipped" error="mapUsers[1]: value for userarn must be supplied"`)
	f.kube.set(nil)
	becomes("")
}

func TestClusterThatComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, both)
	const arn = "arn:aws:iam::111122223333:root"
	f.entry(record.AccessEntry{PrincipalARN: arn})
	if got := f.authenticate(f.root()); !got.Authenticated {
		t.Fatal(got.Error)
	}
	// The cluster is deleted and created again under its name.
	key := record.ClusterKey(account, region, name)
	f.put(f.store.Txn(t.Context(),
		record.ControlPlanes(f.store).RemoveOp(key),
		record.Clusters(f.store).PutOp(key, record.Cluster{Account: account, Region: region, Name: name, ID: otherID,
			AuthenticationMode: both}),
	))
	status, body := f.post("/clusters/"+clusterID+"/authenticate", &authenticationv1.TokenReview{}, nil)
	if status != http.StatusNotFound {
		t.Errorf("the old cluster: %d %s", status, body)
	}
	eventually.Nil(t, "the old cluster is forgotten", func() error {
		f.auth.mu.Lock()
		defer f.auth.mu.Unlock()
		if _, ok := f.auth.served[clusterID]; ok {
			return errors.New("it is remembered")
		}
		return nil
	})
	f.put(f.store.Txn(t.Context(), record.Issuers(f.store).RemoveOp(store.Key(clusterID))))
	if status, body = f.post("/clusters/"+clusterID+"/authenticate", &authenticationv1.TokenReview{},
		nil); status != http.StatusNotFound {
		t.Errorf("the old cluster: %d %s", status, body)
	}
}

// The lines are those of aws-iam-authenticator, which people have queries for.
func TestLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::111122223333:role/Admin", Username: "ops",
		Groups: []string{"a", "b"}})
	f.authenticate(f.role("/", "Admin", "alice"))
	f.authenticate(f.user("/", "bob"))
	f.authenticate("k8s-aws-v2.x")
	want := []string{
		`time="2026-03-01T12:00:00Z" level=info msg="STS response" accesskeyid=ASIAADMIN accountid=111122223333 arn="arn:aws:sts::111122223333:assumed-role/Admin/alice" client="127.0.0.1:*" method=POST path=/authenticate session=alice stsendpoint="127.0.0.1:4566" userid=AROAADMIN`,
		`time="2026-03-01T12:00:00Z" level=info msg="access granted" arn="arn:aws:iam::111122223333:role/Admin" client="127.0.0.1:*" groups="[a b]" method=POST path=/authenticate stsendpoint="127.0.0.1:4566" uid="aws-iam-authenticator:111122223333:AROAADMIN" username=ops`,
		`time="2026-03-01T12:00:00Z" level=info msg="STS response" accesskeyid=AKIABOB accountid=111122223333 arn="arn:aws:iam::111122223333:user/bob" client="127.0.0.1:*" method=POST path=/authenticate session= stsendpoint="127.0.0.1:4566" userid=AIDABOB`,
		`time="2026-03-01T12:00:00Z" level=warning msg="access denied" arn="arn:aws:iam::111122223333:user/bob" client="127.0.0.1:*" error="identity is not mapped" method=POST path=/authenticate`,
		`time="2026-03-01T12:00:00Z" level=warning msg="access denied" client="127.0.0.1:*" error="input token was not properly formatted: token is missing expected \"k8s-aws-v1.\" prefix" method=POST path=/authenticate`,
	}
	got := regexp.MustCompile(`client="127\.0\.0\.1:\d+"`).ReplaceAllString(f.log(), `client="127.0.0.1:*"`)
	if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(got, "\n"), "\n")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestSTSTrouble(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	token := f.root()
	for _, status := range []int{429, 500, 503} {
		f.sts.mu.Lock()
		f.sts.fail = status
		f.sts.mu.Unlock()
		got, body := f.post("/clusters/"+clusterID+"/authenticate",
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, nil)
		if got != http.StatusTooManyRequests { // the API server asks again; not so after 503
			t.Errorf("STS answers %d: got %d %s", status, got, body)
		}
	}
	f.sts.mu.Lock()
	f.sts.fail = 0
	f.sts.mu.Unlock()
	unknown := asToken(presigned(nil))
	if got := f.authenticate(unknown); got.Authenticated || !strings.Contains(got.Error, "InvalidClientTokenId") {
		t.Errorf("unknown access key: %+v", got)
	}
}

func TestOnlyTheClustersAPIServerMayAsk(t *testing.T) {
	t.Parallel()
	f := newFixture(t, onlyAPI)
	for _, test := range []struct {
		name, id, path, method string
		want                   int
	}{
		// admitted: the empty body is what is wrong
		{"its own", clusterID, "/clusters/" + clusterID + "/authenticate", "POST", 400},
		{"its own, authorization", clusterID, "/clusters/" + clusterID + "/authorize", "POST", 400},
		{"another's", otherID, "/clusters/" + clusterID + "/authenticate", "POST", 403},
		{"another's, authorization", otherID, "/clusters/" + clusterID + "/authorize", "POST", 403},
		{"one that is not there", otherID, "/clusters/" + otherID + "/authenticate", "POST", 404},
		{"another path", clusterID, "/clusters/" + clusterID + "/secrets", "POST", 404},
		{"another method", clusterID, "/clusters/" + clusterID + "/authenticate", "GET", 405},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, f.server.URL+test.path, nil)
		f.put(err)
		resp, err := f.client(test.id).Do(req)
		f.put(err)
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", test.name, resp.StatusCode, test.want)
		}
	}
	without := f.client(clusterID)
	without.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
	if resp, err := without.Post(f.server.URL+"/clusters/"+clusterID+"/authenticate", "application/json",
		nil); err == nil {
		resp.Body.Close()
		t.Errorf("without a client certificate: got %d, want a failed handshake", resp.StatusCode)
	}
}
