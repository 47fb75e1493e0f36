# Fibonacci: so many ways there are to cut a row of a's into ones and twos. The backreference keeps 3.2 and later from
# remembering what was tried.
wait_for_go
named("parser") { loop { /\A(?:(a)|aa)*\1?\z/.match?("a" * 60 + "!") } }
ready
