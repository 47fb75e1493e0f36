// Package archtest tests the rules of the project that concern no single package. Such rules are about imports, sizes,
// scripts, documents, the installation and plain English. It has tests only.
package archtest
