// Package escalation tries the known ways from a few permissions to more of them: each through the AWS API, by somebody
// who has all that the way needs except the permission that should stop it, and again with that permission.
package escalation
