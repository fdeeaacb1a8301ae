package audit

import (
	"testing"

	authnv1 "k8s.io/api/authentication/v1"
)

func TestWho(t *testing.T) {
	t.Parallel()
	session := authnv1.UserInfo{Username: "deployer", Groups: []string{"system:authenticated", "shop"},
		Extra: map[string]authnv1.ExtraValue{
			"arn":          {"arn:aws:sts::111122223333:assumed-role/ci/build-7"},
			"canonicalArn": {"arn:aws:iam::111122223333:role/ci"}, "sessionName": {"build-7"},
			"accessKeyId": {"ASIAEXAMPLE"},
		}}
	for _, c := range []struct {
		user      authnv1.UserInfo
		short     string
		machinery bool
		mentions  string
	}{
		{session, "build-7", false, "ROLE/ci"},
		{authnv1.UserInfo{Username: "arn:aws:iam::111122223333:user/team/bob"}, "bob", false, "team"},
		{authnv1.UserInfo{Username: "arn:aws:iam::111122223333:root"}, "root", false, ":root"},
		{authnv1.UserInfo{Username: "system:serviceaccount:kube-system:job-controller"}, "job-controller", true, "job"},
		{authnv1.UserInfo{Username: "system:serviceaccount:shop:web",
			Extra: map[string]authnv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"web-1"}}}, "web", false,
			"web-1"},
		{authnv1.UserInfo{Username: "system:node:ip-10-0-0-1.ec2.internal"}, "system:node:ip-10-0-0-1.ec2.internal",
			true, "node"},
		{authnv1.UserInfo{Username: "eks:addon-manager"}, "eks:addon-manager", true, "eks:"},
		{authnv1.UserInfo{Username: "eks:node-manager", Extra: map[string]authnv1.ExtraValue{
			"sessionName": {"EKSAuthTokenSession"}}}, "eks:node-manager", true, "EKSAuth"},
		{authnv1.UserInfo{Username: "admin"}, "admin", false, "admin"},
	} {
		w := resolveUser(c.user)
		if w.shortName() != c.short || w.machinery() != c.machinery || !w.mentions(c.mentions) || w.mentions("nobody") {
			t.Errorf("%s: short %q, machinery %v, mentions %q %v", c.user.Username, w.shortName(), w.machinery(),
				c.mentions, w.mentions(c.mentions))
		}
	}
	// Whom somebody impersonates is who acts.
	boss := resolveUser(authnv1.UserInfo{Username: "system:kube-scheduler"})
	as := resolveUser(session)
	boss.As = &as
	if boss.machinery() || boss.shortName() != "build-7" || !boss.mentions("build-7") {
		t.Errorf("impersonation: %+v", boss)
	}
	if w := resolveUser(session); len(w.Groups) != 1 || w.Groups[0] != "shop" {
		t.Errorf("groups that matter: %v", w.Groups)
	}
}
