package policy

import "testing"

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		condition string
		keys      Context
		want      bool
	}{
		{`"StringEquals": {"aws:username": "alice"}`, Context{"aws:username": {"alice"}}, true},
		{`"StringEquals": {"AWS:UserName": "alice"}`, Context{"aws:username": {"alice"}}, true},
		{`"StringEquals": {"aws:username": "Alice"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:username": ["bob", "alice"]}`, Context{"aws:username": {"alice"}}, true},
		{`"StringEquals": {"aws:username": "ali*"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:username": "alice"}`, Context{}, false},
		{`"StringEquals": {"aws:username": []}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:username": "alice", "aws:userid": "x"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:username": "alice"}, "Bool": {"aws:SecureTransport": true}`,
			Context{"aws:username": {"alice"}, "aws:SecureTransport": {"true"}}, true},
		{`"StringEquals": {"aws:username": "alice"}, "Bool": {"aws:SecureTransport": true}`,
			Context{"aws:username": {"alice"}, "aws:SecureTransport": {"false"}}, false},
		{`"StringNotEquals": {"aws:username": "bob"}`, Context{"aws:username": {"alice"}}, true},
		{`"StringNotEquals": {"aws:username": ["bob", "alice"]}`, Context{"aws:username": {"alice"}}, false},
		{`"StringNotEquals": {"aws:username": "bob"}`, Context{}, true},
		{`"StringEqualsIgnoreCase": {"aws:username": "ALICE"}`, Context{"aws:username": {"alice"}}, true},
		{`"StringNotEqualsIgnoreCase": {"aws:username": "ALICE"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringLike": {"aws:username": ["x*", "a?i*"]}`, Context{"aws:username": {"alice"}}, true},
		{`"StringLike": {"aws:username": "A*"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringLike": {"aws:username": "*"}`, Context{}, false},
		{`"StringLike": {"aws:username": "?"}`, Context{"aws:username": {"é"}}, true},
		{`"StringNotLike": {"aws:username": "a*"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEqualsIfExists": {"aws:username": "alice"}`, Context{}, true},
		{`"StringEqualsIfExists": {"aws:username": "alice"}`, Context{"aws:username": {"bob"}}, false},
		{`"StringNotEqualsIfExists": {"aws:username": "alice"}`, Context{"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:RequestTag/owner": "${aws:username}"}`, Context{"aws:RequestTag/owner": {"alice"},
			"aws:username": {"alice"}}, true},
		{`"StringEquals": {"aws:RequestTag/owner": "${aws:username}"}`, Context{"aws:RequestTag/owner": {"bob"},
			"aws:username": {"alice"}}, false},
		{`"StringEquals": {"aws:RequestTag/owner": "${aws:username}"}`, Context{"aws:RequestTag/owner": {""}}, false},
		{`"StringLike": {"aws:RequestTag/owner": "team-${aws:PrincipalTag/team, 'none'}-*"}`,
			Context{"aws:RequestTag/owner": {"team-none-x"}}, true},
		{`"StringEqualsIgnoreCase": {"aws:RequestTag/owner": "${aws:username}"}`,
			Context{"aws:RequestTag/owner": {"ALICE"}, "aws:username": {"alice"}}, true},

		{`"NumericEquals": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"10.0"}}, true},
		{`"NumericNotEquals": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"10"}}, false},
		{`"NumericLessThan": {"s3:max-keys": 10}`, Context{"s3:max-keys": {"9"}}, true},
		{`"NumericLessThan": {"s3:max-keys": 10}`, Context{"s3:max-keys": {"10"}}, false},
		{`"NumericLessThanEquals": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"10"}}, true},
		{`"NumericGreaterThan": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"9"}}, false},
		{`"NumericGreaterThanEquals": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"10"}}, true},
		{`"NumericGreaterThanIfExists": {"s3:max-keys": "10"}`, Context{}, true},
		{`"NumericEquals": {"s3:max-keys": "10"}`, Context{"s3:max-keys": {"ten"}}, false},
		{`"NumericLessThanEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"NaN"}}, false},
		{`"NumericGreaterThanEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"nan"}}, false},
		{`"NumericEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"NaN"}}, false},
		{`"NumericNotEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"NaN"}}, true}, // as of any text
		{`"NumericGreaterThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"Inf"}}, false},
		{`"NumericGreaterThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"+Infinity"}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"-inf"}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"1e400"}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"1e-400"}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"0x1p-2"}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"0x_1p0"}}, false},
		{`"NumericGreaterThan": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"1_0"}}, false},
		{`"NumericEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"+5"}}, false},
		{`"NumericEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {" 5"}}, false},
		{`"NumericEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {"٥"}}, false},
		{`"NumericEquals": {"aws:RequestTag/p": "5"}`, Context{"aws:RequestTag/p": {""}}, false},
		{`"NumericLessThan": {"aws:RequestTag/p": "-1.5"}`, Context{"aws:RequestTag/p": {"-1.75"}}, true},
		{`"NumericEquals": {"aws:RequestTag/p": "9007199254740993"}`, Context{"aws:RequestTag/p": {"9007199254740992"}},
			false},
		{`"NumericEquals": {"aws:RequestTag/p": "0.1"}`, Context{"aws:RequestTag/p": {"0.10000000000000000001"}},
			false},

		{`"DateLessThan": {"aws:CurrentTime": "2026-12-01T00:00:00Z"}`,
			Context{"aws:CurrentTime": {"2026-11-21T08:00:00Z"}}, true},
		{`"DateGreaterThan": {"aws:CurrentTime": "2026-12-01T00:00:00Z"}`,
			Context{"aws:CurrentTime": {"2026-11-21T08:00:00Z"}}, false},
		{`"DateGreaterThanEquals": {"aws:CurrentTime": "2026-11-21"}`,
			Context{"aws:CurrentTime": {"2026-11-21T00:00:00Z"}}, true},
		{`"DateLessThanEquals": {"aws:EpochTime": "1795248000"}`, Context{"aws:EpochTime": {"1795247999"}}, true},
		{`"DateEquals": {"aws:CurrentTime": "2026-11-21T10:00:00+02:00"}`,
			Context{"aws:CurrentTime": {"2026-11-21T08:00:00Z"}}, true},
		{`"DateNotEquals": {"aws:CurrentTime": "2026-11-21T08:00:00Z"}`,
			Context{"aws:CurrentTime": {"2026-11-21T08:00:00Z"}}, false},
		{`"DateLessThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"NaN"}}, false},
		{`"DateGreaterThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"Inf"}}, false},
		{`"DateLessThanEquals": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"NaN"}}, false},
		{`"DateLessThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"0x1"}}, false},
		{`"DateLessThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"-1"}}, false},
		{`"DateGreaterThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"253402300800"}}, false},
		{`"DateGreaterThan": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"253402300799"}}, true},
		{`"DateEquals": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"2027"}}, true},
		{`"DateEquals": {"x:until": "2027-01-01T01:00:00.5+01:00"}`, Context{"x:until": {"2027-01-01T00:00:00.500Z"}},
			true},
		{`"DateEquals": {"x:until": "2027-01-01T00:00:00.5Z"}`, Context{"x:until": {"2027-01-01T00:00:00,5Z"}}, false},
		{`"DateEquals": {"x:until": "2027-01-01T01:00:00Z"}`, Context{"x:until": {"2027-01-01T1:00:00Z"}}, false},
		{`"DateEquals": {"x:until": "2027-01-01T00:00:00.0009Z"}`, Context{"x:until": {"2027-01-01T00:00:00Z"}}, false},
		{`"DateNotEquals": {"x:until": "2027-01-01T00:00:00Z"}`, Context{"x:until": {"2027-13-01T00:00:00Z"}}, true},

		{`"Bool": {"aws:MultiFactorAuthPresent": "true"}`, Context{"aws:MultiFactorAuthPresent": {"true"}}, true},
		{`"Bool": {"aws:MultiFactorAuthPresent": "false"}`, Context{}, false},
		{`"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}`, Context{}, true},
		{`"Bool": {"aws:SecureTransport": "FALSE"}`, Context{"aws:SecureTransport": {"false"}}, true},
		// the long s is no s
		{`"Bool": {"aws:RequestTag/b": "false"}`, Context{"aws:RequestTag/b": {"fal\u017fe"}}, false},
		{`"Bool": {"aws:RequestTag/b": "true"}`, Context{"aws:RequestTag/b": {"1"}}, false},
		{`"Bool": {"aws:RequestTag/b": "true"}`, Context{"aws:RequestTag/b": {"t"}}, false},
		{`"Bool": {"aws:RequestTag/b": "true"}`, Context{"aws:RequestTag/b": {""}}, false},
		{`"Bool": {"aws:RequestTag/b": "${aws:PrincipalTag/b}"}`, Context{"aws:RequestTag/b": {"True"},
			"aws:PrincipalTag/b": {"true"}}, true},
		{`"Bool": {"aws:RequestTag/b": "${aws:PrincipalTag/b}"}`, Context{"aws:RequestTag/b": {"x"},
			"aws:PrincipalTag/b": {"x"}}, false},
		// the Kelvin sign is no k
		{`"StringEqualsIgnoreCase": {"aws:RequestTag/t": "kiosk"}`, Context{"aws:RequestTag/t": {"\u212aIOSK"}}, false},
		{`"StringEqualsIgnoreCase": {"aws:RequestTag/t": "kiosk"}`, Context{"aws:RequestTag/t": {"kio\u017fk"}}, false},
		{`"StringEqualsIgnoreCase": {"aws:RequestTag/t": "Ärzte"}`, Context{"aws:RequestTag/t": {"äRZTE"}}, true},
		{`"StringEqualsIgnoreCase": {"aws:RequestTag/t": "a"}`, Context{"aws:RequestTag/t": {"ab"}}, false},
		{`"BinaryEquals": {"x:key": "QmluYXJ5"}`, Context{"x:key": {"QmluYXJ5"}}, true},
		{`"BinaryEquals": {"x:key": "QmluYXJ5"}`, Context{"x:key": {"QmluYXJ6"}}, false},
		{`"BinaryEquals": {"x:key": "QQ=="}`, Context{"x:key": {"QR=="}}, false},
		{`"BinaryEquals": {"x:key": "QQ=="}`, Context{"x:key": {"QQ==\n"}}, false},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.7"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "2001:db8::/32"]}`, Context{"aws:SourceIp": {"2001:db8::1"}},
			true},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, Context{"aws:SourceIp": {"::ffff:203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, Context{}, false},
		{`"NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24", "10.0.0.0/8"]}`, Context{"aws:SourceIp": {"10.1.1.1"}},
			false},
		{`"NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, Context{"aws:SourceIp": {"192.0.2.1"}}, true},
		{`"NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}`, Context{}, true},
		{`"IpAddress": {"aws:SourceIp": "203.0.113.77/24"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": "::ffff:203.0.113.0/120"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": "::ffff:203.0.113.7"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, true},
		{`"IpAddress": {"aws:SourceIp": "::/0"}`, Context{"aws:SourceIp": {"203.0.113.7"}}, false},
		{`"IpAddress": {"aws:SourceIp": "fe80::/10"}`, Context{"aws:SourceIp": {"fe80::1%eth0"}}, true},
		{`"NotIpAddress": {"aws:SourceIp": "fe80::/10"}`, Context{"aws:SourceIp": {"fe80::1%eth0"}}, false},
		{`"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}`, Context{"aws:SourceIp": {"010.0.0.1"}}, false},

		{`"ArnEquals": {"aws:SourceArn": "arn:aws:eks:*:111122223333:cluster/x"}`,
			Context{"aws:SourceArn": {"arn:aws:eks:us-east-1:111122223333:cluster/x"}}, true},
		{`"ArnLike": {"aws:SourceArn": "arn:aws:eks:*:cluster/x"}`,
			Context{"aws:SourceArn": {"arn:aws:eks:us-east-1:111122223333:cluster/x"}}, false},
		{`"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/${aws:PrincipalTag/team}-*"}`,
			Context{"aws:PrincipalArn": {"arn:aws:iam::111122223333:role/blue-x"}, "aws:PrincipalTag/team": {"blue"}},
			true},
		{`"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/admin"}`,
			Context{"aws:PrincipalArn": {"arn:aws:iam::111122223333:role/admin"}}, false},
		{`"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::*:role/admin"}`, Context{}, true},
		{`"StringLike": {"aws:PrincipalArn": "arn:*:role/admin"}`,
			Context{"aws:PrincipalArn": {"arn:aws:iam::111122223333:role/admin"}}, true},

		{`"Null": {"aws:TokenIssueTime": "true"}`, Context{}, true},
		{`"Null": {"aws:TokenIssueTime": true}`, Context{"aws:TokenIssueTime": {"x"}}, false},
		{`"Null": {"aws:TokenIssueTime": "false"}`, Context{"aws:TokenIssueTime": {"x"}}, true},
		{`"Null": {"aws:TokenIssueTime": "false"}`, Context{}, false},
		{`"Null": {"aws:RequestTag/t": "false"}`, Context{"aws:RequestTag/t": {""}}, true},
		{`"Null": {"aws:RequestTag/t": "FALSE"}`, Context{"aws:RequestTag/t": {}}, false},

		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{"aws:TagKeys": {"a"}}, true},
		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{"aws:TagKeys": {"a", "c"}}, false},
		{`"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{}, true},
		{`"ForAllValues:StringLike": {"aws:TagKeys": "team-*"}`, Context{"aws:TagKeys": {"team-a", "team-b"}}, true},
		{`"ForAllValues:StringNotEquals": {"aws:TagKeys": "a"}`, Context{"aws:TagKeys": {"b", "a"}}, false},
		{`"ForAllValues:StringNotEquals": {"aws:TagKeys": "a"}`, Context{"aws:TagKeys": {"b", "c"}}, true},
		{`"ForAnyValue:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{"aws:TagKeys": {"c", "b"}}, true},
		{`"ForAnyValue:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{"aws:TagKeys": {"c"}}, false},
		{`"ForAnyValue:StringEquals": {"aws:TagKeys": ["a", "b"]}`, Context{}, false},
		{`"ForAnyValue:StringNotEquals": {"aws:TagKeys": "a"}`, Context{"aws:TagKeys": {"a", "b"}}, true},
		{`"ForAnyValue:StringNotEquals": {"aws:TagKeys": "a"}`, Context{"aws:TagKeys": {"a"}}, false},
		{`"ForAnyValue:StringNotEquals": {"aws:TagKeys": "a"}`, Context{}, false},
		{`"ForAllValues:StringEqualsIfExists": {"aws:TagKeys": "a"}`, Context{"aws:TagKeys": {"b"}}, false},
		// a null data set
		{`"ForAllValues:StringEquals": {"aws:RequestTag/t": "a"}`, Context{"aws:RequestTag/t": {""}}, true},
		{`"ForAllValues:StringNotEquals": {"aws:RequestTag/t": ""}`, Context{"aws:RequestTag/t": {""}}, true},
		{`"ForAllValues:StringEquals": {"aws:RequestTag/t": "a"}`, Context{"aws:RequestTag/t": {"a", ""}}, false},
		{`"ForAllValues:StringEquals": {"aws:RequestTag/t": "a"}, "Null": {"aws:RequestTag/t": "false"}`, Context{},
			false},
		{`"ForAnyValue:StringEquals": {"aws:RequestTag/t": ""}`, Context{"aws:RequestTag/t": {""}}, false},
		{`"ForAnyValue:StringNotEquals": {"aws:RequestTag/t": "a"}`, Context{"aws:RequestTag/t": {""}}, false},
		{`"ForAnyValue:StringLike": {"aws:CalledVia": "cloud*"}`,
			Context{"aws:CalledVia": {"athena.amazonaws.com", "cloudformation.amazonaws.com"}}, true},
	} {
		t.Run(test.condition, func(t *testing.T) {
			t.Parallel()
			p := sources(t, Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {`+
				test.condition+`}}`))
			d := Evaluate(&Request{Action: "eks:ListClusters", Resource: "*", Principal: alice, Keys: test.keys},
				&Policies{Identity: p})
			if d.Allowed() != test.want {
				t.Errorf("with %v: %v, want %v", test.keys, d.Allowed(), test.want)
			}
		})
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	keys := Layers{Context{"aws:SourceIp": {"1.1.1.1"}}, nil, Context{"AWS:SourceIP": {"2.2.2.2"}, "aws:userid": {"x"}}}
	if v, _ := keys.Lookup("aws:sourceip"); len(v) != 1 || v[0] != "1.1.1.1" {
		t.Errorf("the first layer does not win: %v", v)
	}
	if v, ok := keys.Lookup("aws:UserID"); !ok || v[0] != "x" {
		t.Errorf("the last layer is not read: %v", v)
	}
	if _, ok := keys.Lookup("aws:none"); ok {
		t.Error("a key that no layer has is found")
	}
}
