// Package archtest tests rules of the project that apply to more than one package. They are about imports, sizes,
// scripts, documents, the installation and plain English. The package has tests only.
package archtest
