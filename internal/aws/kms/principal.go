package kms

import "regexp"

var accountID = regexp.MustCompile(`^\d{12}$`)

func accountARN(account string) string { return "arn:aws:iam::" + account + ":root" }
