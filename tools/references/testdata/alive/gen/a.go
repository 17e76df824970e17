package gen // gone.md
