package identity

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/record"
)

// serviceSession is the lifetime of a service's credentials; the SDK requests new ones before they expire.
const serviceSession = time.Hour

// ServiceRoleCredentials returns the credentials of an AWS service that acts in an account under a role, as EKS does
// under AWSServiceRoleForAmazonEKS with the session name "EKS". For a role that does not exist, retrieving the
// credentials fails, not this call.
func (i *Identity) ServiceRoleCredentials(account, roleName, sessionName string) aws.CredentialsProvider {
	return i.roleCredentials(account, roleName, sessionName, "")
}

// OwnRoleCredentials returns the credentials of an AWS service under a role of its own account. The service is sealed
// into the sessions as [Session.Service]: nobody who may assume the role, whatever its trust policy says, gets a
// session of it, and these are good inside this process only.
func (i *Identity) OwnRoleCredentials(account, roleName, sessionName, service string) aws.CredentialsProvider {
	return i.roleCredentials(account, roleName, sessionName, service)
}

func (i *Identity) roleCredentials(account, roleName, sessionName, service string) aws.CredentialsProvider {
	return aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		row, err := i.roles.Get(ctx, record.RoleKey(account, roleName))
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("credentials of the role %s in account %s: %w", roleName, account, err)
		}
		now := i.now()
		session := &Session{Account: account, Role: row.Value.Name, PrincipalID: row.Value.ID, Name: sessionName,
			Issued: now, Expires: now.Add(serviceSession), Service: service}
		token, err := i.Seal(ctx, session)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("credentials of the role %s in account %s: %w", roleName, account, err)
		}
		return aws.Credentials{
			AccessKeyID: session.AccessKeyID, SecretAccessKey: session.Secret, SessionToken: token,
			CanExpire: true, Expires: session.Expires, Source: "CoracleServiceRole", AccountID: account,
		}, nil
	}), func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 5 * time.Minute })
}

// cutRoleARN takes arn:aws:iam::<account>:role/<path/><name> apart.
func cutRoleARN(arn string) (account, name string, ok bool) {
	rest, ok := strings.CutPrefix(arn, "arn:aws:iam::")
	if !ok {
		return "", "", false
	}
	account, resource, ok := strings.Cut(rest, ":role/")
	return account, resource[strings.LastIndexByte(resource, '/')+1:], ok
}
