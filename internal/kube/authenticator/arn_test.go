package authenticator

import "testing"

func TestRoleOfAnARN(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, arn, withoutPath, username string }{
		{
			name: "a role", arn: "arn:aws:iam::111122223333:role/admin",
			withoutPath: "arn:aws:iam::111122223333:role/admin",
			username:    "arn:aws:sts::111122223333:assumed-role/admin/{{SessionName}}",
		},
		{
			name: "a role with a path", arn: "arn:aws-cn:iam::111122223333:role/a/b/admin",
			withoutPath: "arn:aws-cn:iam::111122223333:role/admin",
			username:    "arn:aws-cn:sts::111122223333:assumed-role/admin/{{SessionName}}",
		},
		{
			name: "a role whose path looks like a role", arn: "arn:aws:iam::111122223333:role/x:role/admin",
			withoutPath: "arn:aws:iam::111122223333:role/admin",
			username:    "arn:aws:sts::111122223333:assumed-role/admin/{{SessionName}}",
		},
		{
			name: "a role whose path looks like a user", arn: "arn:aws:iam::111122223333:role/x:user/user/bob",
			withoutPath: "arn:aws:iam::111122223333:role/bob",
			username:    "arn:aws:sts::111122223333:assumed-role/bob/{{SessionName}}",
		},
		{
			name: "a user whose path looks like a role", arn: "arn:aws:iam::111122223333:user/x:role/y/admin",
			withoutPath: "arn:aws:iam::111122223333:user/x:role/y/admin",
			username:    "arn:aws:iam::111122223333:user/x:role/y/admin",
		},
		{
			name: "a user whose path is role", arn: "arn:aws:iam::111122223333:user/role/admin",
			withoutPath: "arn:aws:iam::111122223333:user/role/admin",
			username:    "arn:aws:iam::111122223333:user/role/admin",
		},
		{
			name: "a root user", arn: "arn:aws:iam::111122223333:root",
			withoutPath: "arn:aws:iam::111122223333:root", username: "arn:aws:iam::111122223333:root",
		},
		{name: "no ARN", arn: "x:role/y/admin", withoutPath: "x:role/y/admin", username: "x:role/y/admin"},
	} {
		if got := withoutPath(test.arn); got != test.withoutPath {
			t.Errorf("%s: without its path %s, want %s", test.name, got, test.withoutPath)
		}
		if got := defaultUsername(test.arn); got != test.username {
			t.Errorf("%s: its user name is %s, want %s", test.name, got, test.username)
		}
	}
}
