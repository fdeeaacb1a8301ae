package authenticator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

// FuzzAuthenticate shows that a token of one user never makes anybody another: it begins with a token that is genuine,
// of which the presigned URL is altered, and with the review that an API server sends.
func FuzzAuthenticate(f *testing.F) {
	r := newRealSTS(f)
	now := time.Now()
	r.aws.SetNow(now)
	for _, arn := range []string{"root", "user/bob", "user/eve"} {
		r.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::" + account + ":" + arn, CreatedAt: now.Add(time.Hour)})
	}
	eve := r.aws.NewUser(f, "eve", "")
	bob := r.aws.NewUser(f, "bob", "")
	genuine := r.token(eve, name, now)
	presigned, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(genuine, tokenPrefix))
	if err != nil {
		f.Fatal(err)
	}
	review := func(token string) []byte {
		text, err := json.Marshal(tokenReviewOf(token))
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	const url, token, body = 0, 1, 2
	f.Add(presigned, byte(url))
	f.Add(bytes.Replace(presigned, []byte(eve.AccessKeyID), []byte(bob.AccessKeyID), 1), byte(url))
	f.Add([]byte(genuine), byte(token))
	f.Add(review(genuine), byte(body))
	cluster := record.Cluster{Account: account, Region: region, Name: name, ID: clusterID, AuthenticationMode: onlyAPI}
	logs, tries := filepath.Join(r.dir, clusterID, "log", "*"), 0
	f.Fuzz(func(t *testing.T, input []byte, form byte) {
		if tries++; tries%1000 == 0 {
			files, _ := filepath.Glob(logs) // every try is in the log
			for _, file := range files {
				_ = os.Truncate(file, 0)
			}
		}
		switch form {
		case url:
			input = review(tokenPrefix + base64.RawURLEncoding.EncodeToString(input))
		case token:
			input = review(string(input))
		}
		w := httptest.NewRecorder()
		r.auth.authenticate(
			w, httptest.NewRequest(http.MethodPost, "/clusters/"+clusterID+"/authenticate", bytes.NewReader(input)), cluster,
		)
		if w.Code == http.StatusBadRequest {
			return
		}
		var answer authenticationv1.TokenReview
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s\nis answered with %d, %v\n%s", input, w.Code, err, w.Body)
		}
		if user := answer.Status.User; answer.Status.Authenticated && user.Username != "arn:aws:iam::"+account+
			":user/eve" ||
			answer.Status.Authenticated != (user.Username != "") {
			t.Fatalf("%s\nis %+v", input, user)
		}
	})
}

func tokenReviewOf(token string) *authenticationv1.TokenReview {
	return &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
}

// FuzzAuthorize shows that an access policy allows what it says, to whom it is associated with, whatever a review
// claims.
func FuzzAuthorize(f *testing.F) {
	x := newFixture(f, onlyAPI)
	x.user("/", "eve")
	eve := "arn:aws:iam::" + account + ":user/eve"
	x.entry(
		record.AccessEntry{
			PrincipalARN: eve,
			Policies:     []record.AccessPolicyAssociation{within("AmazonEKSViewPolicy", "team-*")},
		},
	)
	user := authenticationv1.UserInfo{
		Username: eve,
		UID:      "aws-iam-authenticator:" + account + ":AIDAEVE",
		Extra: map[string]authenticationv1.ExtraValue{
			extraARN: {
				eve,
			}, extraPrincipal: {"AIDAEVE"}, extraCanonicalARN: {eve}, extraAccessKeyID: {"AKIAEVE"},
			extraSessionName: {""}, extraPrincipalID: {"AIDAEVE"},
		},
	}
	for _, spec := range []authorizationv1.SubjectAccessReviewSpec{
		on("get", "", "pods", "team-a", "x"), on("list", "apps", "deployments", "team-a", ""),
		on("get", "", "pods/log", "team-", "x"), on("delete", "", "pods", "team-a", "x"),
		on("get", "", "secrets", "team-a", "x"),
		on("get", "", "pods", "kube-system", "x"), on("get", "", "nodes", "", ""), path("get", "/healthz"),
	} {
		spec.User, spec.UID, spec.Extra = user.Username, user.UID, map[string]authorizationv1.ExtraValue{}
		for k, v := range user.Extra {
			spec.Extra[k] = authorizationv1.ExtraValue(v)
		}
		text, err := json.Marshal(&authorizationv1.SubjectAccessReview{Spec: spec})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	cluster := record.Cluster{Account: account, Region: region, Name: name, ID: clusterID, AuthenticationMode: onlyAPI}
	f.Fuzz(func(t *testing.T, input []byte) {
		w := httptest.NewRecorder()
		x.auth.authorize(
			w, httptest.NewRequest(http.MethodPost, "/clusters/"+clusterID+"/authorize", bytes.NewReader(input)), cluster,
		)
		if w.Code == http.StatusBadRequest {
			return
		}
		var asked, answer authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s\nis answered with %d, %v\n%s", input, w.Code, err, w.Body)
		}
		if !answer.Status.Allowed {
			return
		}
		if err := json.NewDecoder(bytes.NewReader(input)).Decode(&asked); err != nil {
			t.Fatal(err)
		}
		spec, wanted := asked.Spec, asked.Spec.ResourceAttributes
		if spec.User != eve || spec.UID != user.UID || wanted == nil ||
			!slices.Contains([]string{"get", "list", "watch"}, wanted.Verb) ||
			!strings.HasPrefix(wanted.Namespace, "team-") ||
			wanted.Resource == "secrets" {
			t.Fatalf("%s\nis allowed: %s", input, answer.Status.Reason)
		}
	})
}

// FuzzAWSAuth shows that whatever the ConfigMap says makes nobody anything without a principal, and that what is wrong
// with it is told in short.
func FuzzAWSAuth(f *testing.F) {
	for _, text := range []string{
		"- rolearn: arn:aws:iam::111122223333:role/nodes\n  username: system:node:{{EC2PrivateDNSName}}\n  groups:\n " +
			" - system:bootstrappers\n", `[{"rolearn":"a","username":"x","groups":["g"]}]`,
		"- \"444455556666\"\n- 012345678901\n",
		"``", "null", "- &node\n  rolearn: a\n- <<: *node\n  rolearn: b\n", "- groups: x\n  userarn: [b]\n",
		"a: [&a [*a]]",
	} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, roles, users, accounts string) {
		parsed, errs := parseAWSAuth(map[string]string{"mapRoles": roles, "mapUsers": users, "mapAccounts": accounts})
		for _, err := range errs {
			if len(err.Error()) > maxReport+100 {
				t.Fatalf("a report of %d bytes", len(err.Error()))
			}
		}
		if len(errs) > maxReports {
			t.Fatalf("%d reports", len(errs))
		}
		for _, m := range []map[string]mapping{parsed.roles, parsed.users} {
			if _, ok := m[""]; ok {
				t.Fatalf("nobody is somebody: %+v", m)
			}
		}
	})
}
